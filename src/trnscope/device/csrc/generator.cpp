#include "generator.h"

#include <ATen/CPUGeneratorImpl.h>

#include <deque>
#include <mutex>

namespace trnscope {
namespace {

class NeuronGenerator final : public c10::GeneratorImpl {
 public:
  NeuronGenerator(c10::DeviceIndex device, at::Generator host)
      : c10::GeneratorImpl(c10::Device(kNeuron, device), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
        host_(std::move(host)) {}

  void set_current_seed(uint64_t seed) override { host_.set_current_seed(seed); }
  void set_offset(uint64_t offset) override { host_.unsafeGetGeneratorImpl()->set_offset(offset); }
  uint64_t get_offset() const override { return host_.unsafeGetGeneratorImpl()->get_offset(); }
  uint64_t current_seed() const override { return host_.current_seed(); }
  uint64_t seed() override { return host_.seed(); }
  void set_state(const c10::TensorImpl& state) override { host_.unsafeGetGeneratorImpl()->set_state(state); }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override { return host_.unsafeGetGeneratorImpl()->get_state(); }

  const at::Generator& host() const { return host_; }

 private:
  NeuronGenerator* clone_impl() const override { return new NeuronGenerator(device().index(), host_.clone()); }

  at::Generator host_;
};

at::Generator make(c10::DeviceIndex device, uint64_t seed) {
  return at::Generator(c10::make_intrusive<NeuronGenerator>(device, at::detail::createCPUGenerator(seed)));
}

}  // namespace

const at::Generator& default_generator(c10::DeviceIndex device) {
  static std::mutex mutex;
  static std::deque<at::Generator> generators;  // a deque keeps references valid while it grows
  const auto place = static_cast<size_t>(checked_device(device));
  std::lock_guard guard(mutex);
  while (generators.size() <= place)
    generators.push_back(
        make(static_cast<c10::DeviceIndex>(generators.size()), c10::detail::getNonDeterministicRandom()));
  return generators[place];
}

at::Generator new_generator(c10::DeviceIndex device) {
  return make(checked_device(device), c10::default_rng_seed_val);
}

const at::Generator& host_generator(const at::Generator& generator) {
  TORCH_CHECK(generator.device().type() == kNeuron, "Expected a 'neuron' device type for generator but found '",
              generator.device().type(), "'");
  return static_cast<NeuronGenerator*>(generator.unsafeGetGeneratorImpl())->host();
}

}  // namespace trnscope
