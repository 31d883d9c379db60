// A device for torch, privateuseone:0, whose numbers lie in the processor's memory and are computed there, but
// are never mixed with the processor's own: an operation on numbers of both is refused, as beside a card.

#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/Allocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <cstdlib>
#include <cstring>

namespace {

using at::Tensor;
using c10::IntArrayRef;
using c10::SymIntArrayRef;

constexpr c10::DeviceType KIND = c10::DeviceType::PrivateUse1;
const c10::DispatchKeySet KEYS(c10::DispatchKey::PrivateUse1);

struct Memory final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    void* place = std::malloc(bytes ? bytes : 1);
    return {place, place, &std::free, c10::Device(KIND, 0)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &std::free; }
  void copy_data(void* to, const void* from, size_t bytes) const override { std::memcpy(to, from, bytes); }
};

Memory memory;
const bool known = [] {
  c10::SetAllocator(KIND, &memory);
  return true;
}();

at::ScalarType type_or_default(std::optional<at::ScalarType> type) {
  return type.value_or(at::typeMetaToScalarType(at::get_default_dtype()));
}

Tensor empty(IntArrayRef sizes, std::optional<at::ScalarType> type, std::optional<at::Layout>,
             std::optional<at::Device>, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(sizes, &memory, KEYS, type_or_default(type), format);
}

Tensor empty_strided(IntArrayRef sizes, IntArrayRef strides, std::optional<at::ScalarType> type,
                     std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(sizes, strides, &memory, KEYS, type_or_default(type));
}

// The same numbers as a tensor of the processor.
Tensor on_processor(const Tensor& tensor) {
  if (tensor.device().type() != KIND) return tensor;
  auto options = at::TensorOptions().dtype(tensor.scalar_type());
  return at::from_blob(tensor.mutable_data_ptr(), tensor.sizes(), tensor.strides(), options);
}

Tensor copy_from(const Tensor& from, const Tensor& to, bool) {
  at::AutoDispatchBelowADInplaceOrView no_gradients;
  Tensor target = on_processor(to);
  target.copy_(on_processor(from).expand_as(target));
  return to;
}

const Tensor& resize_(const Tensor& tensor, IntArrayRef sizes, std::optional<at::MemoryFormat>) {
  int64_t numbers = 1;
  for (int64_t size : sizes) numbers *= size;
  auto* storage = tensor.storage().unsafeGetStorageImpl();
  size_t needed = (numbers + tensor.storage_offset()) * tensor.itemsize();
  if (needed > storage->nbytes()) {
    auto place = memory.allocate(needed);
    std::memcpy(place.get(), storage->data(), storage->nbytes());
    storage->set_data_ptr_noswap(std::move(place));
    storage->set_nbytes(needed);
  }
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  return tensor;
}

Tensor copy_from_and_resize(const Tensor& from, const Tensor& to) {
  if (to.sizes() != from.sizes()) resize_(to, from.sizes(), std::nullopt);
  return copy_from(from, to, false);
}

// Whether there are tensors of the processor, but for single numbers, and of this device.
void look(const c10::IValue& value, bool& processor, bool& here) {
  if (value.isTensor()) {
    const Tensor& tensor = value.toTensor();
    if (!tensor.defined()) return;
    here |= tensor.device().type() == KIND;
    processor |= tensor.device().is_cpu() && tensor.dim() > 0;
  } else if (value.isList()) {
    for (const c10::IValue& each : value.toListRef()) look(each, processor, here);
  }
}

// Everything else is computed by the processor on copies.
void computed(const c10::OperatorHandle& operation, torch::jit::Stack* stack) {
  const auto& schema = operation.schema();
  const size_t operands = schema.arguments().size(), first = stack->size() - operands;
  // A card takes indices from the processor, too.
  const bool indexes = schema.name() == "aten::index" || schema.name().find("index_put") != std::string::npos;
  bool processor = false, here = false;
  for (size_t place = 0; place < operands; ++place)
    if (!(indexes && place == 1)) look((*stack)[first + place], processor, here);
  TORCH_CHECK(!(processor && here), "Expected all tensors to be on the same device: ", schema.name());
  at::native::cpu_fallback(operation, stack);
}

}  // namespace

namespace c10::impl {

struct Guard final : DeviceGuardImplInterface {
  static Stream only() { return Stream(Stream::DEFAULT, Device(KIND, 0)); }
  DeviceType type() const override { return KIND; }
  Device exchangeDevice(Device) const override { return Device(KIND, 0); }
  Device getDevice() const override { return Device(KIND, 0); }
  void setDevice(Device) const override {}
  void uncheckedSetDevice(Device) const noexcept override {}
  Stream getStream(Device) const override { return only(); }
  Stream getDefaultStream(Device) const override { return only(); }
  Stream getStreamFromGlobalPool(Device, bool) const override { return only(); }
  Stream getNewStream(Device, int) const override { return only(); }
  Stream exchangeStream(Stream stream) const override { return stream; }
  DeviceIndex deviceCount() const noexcept override { return 1; }
  void record(void**, const Stream&, const DeviceIndex, const EventFlag) const override {}
  void block(void*, const Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void destroyEvent(void*, const DeviceIndex) const noexcept override {}
  bool queryStream(const Stream&) const override { return true; }
  void synchronizeStream(const Stream&) const override {}
  void synchronizeEvent(void*) const override {}
  void synchronizeDevice(const DeviceIndex) const override {}
  void recordDataPtrOnStream(const DataPtr&, const Stream&) const override {}
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

}  // namespace c10::impl

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("empty.memory_format", &empty);
  library.impl("empty_strided", &empty_strided);
  library.impl("_copy_from", &copy_from);
  library.impl("_copy_from_and_resize", &copy_from_and_resize);
  library.impl("resize_", &resize_);
  library.impl("unfold", &at::native::unfold);
  library.impl("view", [](const Tensor& tensor, SymIntArrayRef sizes) {
    return at::native::view(tensor, C10_AS_INTARRAYREF_SLOW(sizes));
  });
  library.impl("_reshape_alias", [](const Tensor& tensor, SymIntArrayRef sizes, SymIntArrayRef strides) {
    auto whole = [](SymIntArrayRef each) { return C10_AS_INTARRAYREF_SLOW(each); };
    return at::native::_reshape_alias(tensor, whole(sizes), whole(strides));
  });
  library.impl("as_strided", [](const Tensor& tensor, SymIntArrayRef sizes, SymIntArrayRef strides,
                                std::optional<c10::SymInt> offset) {
    std::optional<int64_t> from;
    if (offset) from = offset->expect_int();
    return at::native::as_strided_tensorimpl(tensor, C10_AS_INTARRAYREF_SLOW(sizes),
                                             C10_AS_INTARRAYREF_SLOW(strides), from);
  });
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&computed>());
}
