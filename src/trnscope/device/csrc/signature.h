// Op signatures: everything about a call that its lowering depends on, interned to a 32-bit id.
//
// A signature is the op with dtype, sizes, strides and offset of every device tensor and its other arguments.
// Generators and devices are no part of it, nor are the exact values of real numbers: those change at every step of
// a schedule and never change the program, so only small integers and +-0.5 are told apart from "some number".
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <array>
#include <complex>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace trnscope {

struct TensorDescription {
  c10::ScalarType dtype;
  std::vector<int64_t> sizes, strides;
  int64_t offset;
};

struct ScalarValue {
  std::variant<std::monostate, bool, int64_t, double, std::complex<double>, std::string, std::vector<ScalarValue>> value;
};

// The arguments of a call, before the op could change them.
struct ArgumentsDescription {
  std::vector<TensorDescription> inputs;  // device tensors, lists flattened
  std::vector<uint64_t> input_storages;
  std::vector<std::pair<std::string, ScalarValue>> scalars;
  std::vector<int64_t> mutated;  // positions in inputs
};

struct SignatureDescription {
  std::string name;
  std::shared_ptr<const ArgumentsDescription> arguments;
  std::vector<TensorDescription> outputs;
  std::vector<int64_t> aliased;  // positions in outputs whose storage is an input's
  bool mutates;
};

struct InternedSignature {
  uint32_t id;
  bool mutates;
};

// Storage ids of the tensors of one call, inputs then outputs; filled while hashing.
struct TensorRefs {
  static constexpr size_t limit = 255;  // of each kind: the counts of a record are bytes
  std::vector<uint64_t> ids;
  uint8_t inputs = 0, outputs = 0;
  void clear() {
    ids.clear();
    inputs = outputs = 0;
  }
};

// Direct-mapped front of the signature table, one per thread, so that the usual call takes no lock.
struct SignatureCache {
  static constexpr size_t size = 4096;
  struct Slot {
    uint64_t hash = 0;
    InternedSignature interned{};
  };
  uint32_t generation = 0;
  std::array<Slot, size> signatures{};
  std::array<uint64_t, size> arguments{};
};

// Hashes the arguments and describes them when they were never seen. `requires_grad` tells whether one of the
// device tensors takes part in autograd.
uint64_t hash_arguments(SignatureCache& cache, const c10::FunctionSchema& schema,
                        c10::ArrayRef<c10::IValue> arguments, TensorRefs& refs, bool& requires_grad);

// Completes the signature with the results.
InternedSignature intern_signature(SignatureCache& cache, const c10::FunctionSchema& schema, uint64_t arguments_hash,
                                   c10::ArrayRef<c10::IValue> results, TensorRefs& refs);

// The description behind an id; null when it is unknown or was dropped.
std::shared_ptr<const SignatureDescription> describe_signature(uint32_t id);

// Distinct signatures held.
size_t signature_count();

// Forgets all signatures but those of the generation that ends now: operations in flight may still hold their ids.
// Ids are never given twice.
void reset_signatures();

}  // namespace trnscope
