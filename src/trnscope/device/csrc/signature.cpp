#include "signature.h"

#include "allocator.h"

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <mutex>
#include <unordered_map>

namespace trnscope {

namespace {

// One full 64 x 64 -> 128 bit product per pair of words, halves xored, chained. The constants (fractional digits of pi)
// keep a factor from becoming zero.
class Hash {
 public:
  explicit Hash(uint64_t seed) : state_(seed) {}
  void add(uint64_t first, uint64_t second) {
    const auto product = static_cast<unsigned __int128>(first ^ 0x243f6a8885a308d3ULL) * (second ^ state_);
    state_ = (static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64)) + 0x13198a2e03707344ULL;
  }
  void add(std::string_view text) {
    for (size_t i = 0; i < text.size(); i += 8) {
      uint64_t word = 0;
      std::memcpy(&word, text.data() + i, std::min<size_t>(8, text.size() - i));
      add(word, text.size());
    }
  }
  uint64_t value() const { return state_; }

 private:
  uint64_t state_;
};

// What a hashed word stands for.
enum class Tag : uint64_t { device_tensor = 1, host_tensor, nothing, integer, real, complex, boolean, string, list, other };

uint64_t tagged(Tag tag, uint64_t detail = 0) { return static_cast<uint64_t>(tag) << 56 | detail; }

bool on_device(const at::Tensor& tensor) {
  return tensor.defined() && tensor.unsafeGetTensorImpl()->is_privateuseone();
}

// Stands for every real number that is not told apart.
constexpr double kSomeNumber = 1.2345e-3;

double lowered(double value) {
  if (std::fabs(value) == 0.5) return value;
  return std::fabs(value) <= 16 && std::nearbyint(value) == value ? value : kSomeNumber;
}

uint64_t bits(double value) {
  uint64_t word;
  std::memcpy(&word, &value, sizeof word);
  return word;
}

void hash_tensor(Hash& hash, const at::Tensor& tensor, TensorRefs& refs, uint8_t& count) {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  const auto sizes = impl.sizes();
  const auto strides = impl.strides();
  const auto dtype = static_cast<uint64_t>(tensor.scalar_type());
  hash.add(tagged(Tag::device_tensor, dtype << 32 | sizes.size()), static_cast<uint64_t>(impl.storage_offset()));
  for (size_t i = 0; i < sizes.size(); ++i) {
    hash.add(static_cast<uint64_t>(sizes[i]), static_cast<uint64_t>(strides[i]));
  }
  if (count < TensorRefs::limit) {
    ++count;
    refs.ids.push_back(storage_id(*impl.unsafe_storage().unsafeGetStorageImpl()));
  }
}

void hash_value(Hash& hash, const c10::IValue& value, TensorRefs& refs, uint8_t& count, bool& requires_grad) {
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    if (on_device(tensor)) {
      hash_tensor(hash, tensor, refs, count);
      requires_grad |= tensor.requires_grad();
    } else if (tensor.defined()) {
      hash.add(tagged(Tag::host_tensor), static_cast<uint64_t>(tensor.scalar_type()) << 32 | tensor.sizes().size());
      for (const int64_t size : tensor.sizes()) hash.add(static_cast<uint64_t>(size), 0);
    } else {
      hash.add(tagged(Tag::host_tensor, 1), 0);
    }
  } else if (value.isNone()) {
    hash.add(tagged(Tag::nothing), 0);
  } else if (value.isInt()) {
    hash.add(tagged(Tag::integer), static_cast<uint64_t>(value.toInt()));
  } else if (value.isBool()) {
    hash.add(tagged(Tag::boolean), value.toBool() ? 1 : 0);
  } else if (value.isDouble()) {
    hash.add(tagged(Tag::real), bits(lowered(value.toDouble())));
  } else if (value.isComplexDouble()) {
    hash.add(tagged(Tag::complex), bits(lowered(value.toComplexDouble().real())));
    hash.add(tagged(Tag::complex, 1), bits(lowered(value.toComplexDouble().imag())));
  } else if (value.isString()) {
    hash.add(tagged(Tag::string), value.toStringView().size());
    hash.add(value.toStringView());
  } else if (value.isList()) {
    const auto elements = value.toListRef();
    hash.add(tagged(Tag::list), elements.size());
    for (const c10::IValue& element : elements) hash_value(hash, element, refs, count, requires_grad);
  } else {
    hash.add(tagged(Tag::other), 0);  // generators, devices, streams: no part of the signature
  }
}

TensorDescription describe_tensor(const at::Tensor& tensor) {
  return {tensor.scalar_type(), tensor.sizes().vec(), tensor.strides().vec(), tensor.storage_offset()};
}

std::string dtype_name(c10::ScalarType type) { return std::string(c10::getDtypeNames(type).first); }

bool is_device_argument(const c10::TypePtr& type) {
  if (const auto optional = type->cast<c10::OptionalType>()) return is_device_argument(optional->getElementType());
  return type->kind() == c10::TypeKind::DeviceObjType || type->kind() == c10::TypeKind::GeneratorType;
}

bool is_dtype_argument(const c10::TypePtr& type) {
  if (const auto optional = type->cast<c10::OptionalType>()) return is_dtype_argument(optional->getElementType());
  return type->kind() == c10::TypeKind::ScalarTypeType;
}

// Adds the device tensors of `value` to `into` and returns the rest; null when there is nothing else in it.
class ArgumentReader {
 public:
  explicit ArgumentReader(ArgumentsDescription& into) : into_(into) {}

  void read(const c10::Argument& argument, const c10::IValue& value) {
    const auto type = argument.real_type();
    if (is_device_argument(type)) return;
    const size_t first = into_.inputs.size();
    if (is_dtype_argument(type) && value.isInt()) {
      into_.scalars.emplace_back(argument.name(), ScalarValue{dtype_name(static_cast<c10::ScalarType>(value.toInt()))});
    } else {
      add_tensors(value);
      const bool tensors_only = into_.inputs.size() != first && !(value.isList() && has_others(value));
      if (!tensors_only) into_.scalars.emplace_back(argument.name(), scalar(value));
    }
    if (argument.alias_info() && argument.alias_info()->isWrite()) {
      for (size_t i = first; i < into_.inputs.size(); ++i) into_.mutated.push_back(static_cast<int64_t>(i));
    }
  }

 private:
  void add_tensors(const c10::IValue& value) {
    if (value.isTensor() && on_device(value.toTensor())) {
      into_.inputs.push_back(describe_tensor(value.toTensor()));
      into_.input_storages.push_back(storage_id(*value.toTensor().storage().unsafeGetStorageImpl()));
    } else if (value.isList()) {
      for (const c10::IValue& element : value.toListRef()) add_tensors(element);
    }
  }

  static bool has_others(const c10::IValue& value) {
    for (const c10::IValue& element : value.toListRef()) {
      if (!element.isTensor() || !on_device(element.toTensor())) return true;
    }
    return false;
  }

  // Device tensors inside of mixed lists read as "tensor"; other tensors by dtype and shape.
  static ScalarValue scalar(const c10::IValue& value) {
    if (value.isBool()) return {value.toBool()};
    if (value.isInt()) return {value.toInt()};
    if (value.isDouble()) return {value.toDouble()};
    if (value.isComplexDouble()) return {std::complex<double>(value.toComplexDouble())};
    if (value.isString()) return {value.toStringRef()};
    if (value.isTensor() && value.toTensor().defined()) {
      const at::Tensor& tensor = value.toTensor();
      if (on_device(tensor)) return {std::string("tensor")};
      return {"cpu:" + dtype_name(tensor.scalar_type()) + c10::str(tensor.sizes())};
    }
    if (value.isList()) {
      std::vector<ScalarValue> elements;
      for (const c10::IValue& element : value.toListRef()) elements.push_back(scalar(element));
      return {std::move(elements)};
    }
    return {};
  }

  ArgumentsDescription& into_;
};

// Ids by hash. Two generations: ids of the previous one can still be described.
class SignatureTable {
 public:
  bool knows_arguments(uint64_t hash) {
    const std::lock_guard lock(mutex_);
    return arguments_.contains(hash);
  }

  void add_arguments(uint64_t hash, std::shared_ptr<const ArgumentsDescription> description) {
    const std::lock_guard lock(mutex_);
    arguments_.emplace(hash, std::move(description));
  }

  InternedSignature intern(const c10::FunctionSchema& schema, uint64_t hash, uint64_t arguments_hash,
                           c10::ArrayRef<c10::IValue> results) {
    const std::lock_guard lock(mutex_);
    if (const auto found = ids_.find(hash); found != ids_.end()) return found->second;
    auto description = std::make_shared<SignatureDescription>();
    description->name = schema.name();
    if (!schema.overload_name().empty()) description->name += "." + schema.overload_name();
    const auto arguments = arguments_.find(arguments_hash);
    // A reset between the two halves of a call: the arguments are gone, the outputs still tell something.
    description->arguments =
        arguments != arguments_.end() ? arguments->second : std::make_shared<const ArgumentsDescription>();
    for (const c10::IValue& result : results) add_outputs(*description, result);
    description->mutates = schema.is_mutable();
    const InternedSignature interned{next_id_++, description->mutates};
    current_.emplace(interned.id, std::move(description));
    ids_.emplace(hash, interned);
    return interned;
  }

  std::shared_ptr<const SignatureDescription> describe(uint32_t id) {
    const std::lock_guard lock(mutex_);
    for (const auto* generation : {&current_, &previous_}) {
      if (const auto found = generation->find(id); found != generation->end()) return found->second;
    }
    return nullptr;
  }

  size_t size() {
    const std::lock_guard lock(mutex_);
    return ids_.size();
  }

  void reset() {
    const std::lock_guard lock(mutex_);
    previous_ = std::exchange(current_, {});
    ids_.clear();
    arguments_.clear();
    generation.fetch_add(1, std::memory_order_release);
  }

  std::atomic<uint32_t> generation{0};  // thread caches of another generation are stale

 private:
  static void add_outputs(SignatureDescription& description, const c10::IValue& value) {
    if (value.isTensor() && on_device(value.toTensor())) {
      const uint64_t storage = storage_id(*value.toTensor().storage().unsafeGetStorageImpl());
      const auto& inputs = description.arguments->input_storages;
      if (std::find(inputs.begin(), inputs.end(), storage) != inputs.end()) {
        description.aliased.push_back(static_cast<int64_t>(description.outputs.size()));
      }
      description.outputs.push_back(describe_tensor(value.toTensor()));
    } else if (value.isList()) {
      for (const c10::IValue& element : value.toListRef()) add_outputs(description, element);
    }
  }

  std::mutex mutex_;
  uint32_t next_id_ = 1;  // 0: no signature
  std::unordered_map<uint64_t, InternedSignature> ids_;
  std::unordered_map<uint64_t, std::shared_ptr<const ArgumentsDescription>> arguments_;
  std::unordered_map<uint32_t, std::shared_ptr<const SignatureDescription>> current_, previous_;
};

SignatureTable& table() {
  static auto& instance = *new SignatureTable;  // threads may outlive static destruction
  return instance;
}

}  // namespace

uint64_t hash_arguments(SignatureCache& cache, const c10::FunctionSchema& schema,
                        c10::ArrayRef<c10::IValue> arguments, TensorRefs& refs, bool& requires_grad) {
  Hash hash(reinterpret_cast<uintptr_t>(&schema));
  for (const c10::IValue& argument : arguments) hash_value(hash, argument, refs, refs.inputs, requires_grad);
  if (const uint32_t now = table().generation.load(std::memory_order_acquire); cache.generation != now) {
    cache.signatures.fill({});
    cache.arguments.fill(0);
    cache.generation = now;
  }
  uint64_t& slot = cache.arguments[hash.value() % SignatureCache::size];
  if (slot != hash.value()) {
    if (!table().knows_arguments(hash.value())) {
      auto description = std::make_shared<ArgumentsDescription>();
      ArgumentReader reader(*description);
      for (size_t i = 0; i < arguments.size(); ++i) reader.read(schema.arguments()[i], arguments[i]);
      table().add_arguments(hash.value(), std::move(description));
    }
    slot = hash.value();
  }
  return hash.value();
}

InternedSignature intern_signature(SignatureCache& cache, const c10::FunctionSchema& schema, uint64_t arguments_hash,
                                   c10::ArrayRef<c10::IValue> results, TensorRefs& refs) {
  Hash hash(arguments_hash);
  bool ignored = false;
  for (const c10::IValue& result : results) hash_value(hash, result, refs, refs.outputs, ignored);
  SignatureCache::Slot& slot = cache.signatures[hash.value() % SignatureCache::size];
  if (slot.hash != hash.value()) {
    slot = {hash.value(), table().intern(schema, hash.value(), arguments_hash, results)};
  }
  return slot.interned;
}

std::shared_ptr<const SignatureDescription> describe_signature(uint32_t id) { return table().describe(id); }

size_t signature_count() { return table().size(); }

void reset_signatures() { table().reset(); }

}  // namespace trnscope
