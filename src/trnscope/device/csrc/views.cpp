// Views: other sizes and strides over the same storage. No execution.
#include "allocator.h"
#include "dispatch.h"
#include "streams.h"
#include "thread_recorder.h"

#include <ATen/native/Resize.h>
#include <ATen/native/TensorShape.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <torch/library.h>

namespace trnscope {
namespace {

// Views cost the device nothing; a record is kept only while a window asks for views.
template <class... Arguments>
at::Tensor recorded_view(const char* name, at::Tensor view, const at::Tensor& self, const Arguments&... arguments) {
  if (C10_LIKELY((window::get() & window::views) == 0)) return view;
  const auto op = aten_op(name);
  OpRecording recording(op);
  if (!recording.live()) return view;
  const c10::IValue given[] = {self, arguments...};
  recording.inputs(given);
  const c10::IValue results[] = {view};
  recording.outputs(results);
  recording.commit(Kind::view, self.device().index(), current_queue(self.device().index()));
  return view;
}

at::Tensor as_strided(const at::Tensor& self, c10::IntArrayRef size, c10::IntArrayRef stride,
                      std::optional<int64_t> offset) {
  return recorded_view("as_strided", at::native::as_strided_tensorimpl(self, size, stride, offset), self, size, stride,
                       offset);
}

at::Tensor view(const at::Tensor& self, c10::IntArrayRef size) {
  return recorded_view("view", at::native::view(self, size), self, size);
}

at::Tensor reshape_alias(const at::Tensor& self, c10::IntArrayRef size, c10::IntArrayRef stride) {
  return recorded_view("_reshape_alias", at::native::_reshape_alias(self, size, stride), self, size, stride);
}

at::Tensor unfold(const at::Tensor& self, int64_t dimension, int64_t size, int64_t step) {
  return recorded_view("unfold", at::native::unfold(self, dimension, size, step), self, dimension, size, step);
}

void record_stream(at::Tensor& self, c10::Stream stream) {
  allocator().recordStream(self.storage().data_ptr(), stream);
}

at::Tensor& set_storage(at::Tensor& self, c10::Storage source) {
  const auto items = static_cast<int64_t>(source.nbytes() / self.dtype().itemsize());
  return at::native::set_storage_cpu_(self, std::move(source), 0, {items}, {});
}

at::Tensor& set_empty(at::Tensor& self) {
  const c10::Storage storage(c10::Storage::use_byte_size_t(), 0, &allocator(), true);
  return at::native::set_storage_cpu_(self, storage, 0, {0}, {});
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("as_strided", &as_strided);
  m.impl("view", &view);
  m.impl("_reshape_alias", &reshape_alias);
  m.impl("unfold", &unfold);
  m.impl("set_.source_Storage", &set_storage);
  m.impl("set_.source_Storage_storage_offset", &at::native::set_storage_cpu_);
  m.impl("set_.source_Tensor", &at::native::set_tensor_);
  m.impl("set_", &set_empty);
  m.impl("is_set_to", &at::native::is_set_to);
  m.impl("record_stream", &record_stream);
}

}  // namespace
}  // namespace trnscope
