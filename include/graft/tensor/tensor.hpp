// A tensor: an element type, a shape and shared memory, contiguous in row-major order.
#pragma once

#include "../core/buffer.hpp"
#include "../core/shape.hpp"

#include <cstring>
#include <type_traits>
#include <utility>

GRAFT_BEGIN_NAMESPACE

namespace detail {
// Whether a type that C++ has no type for is held, one element a byte, as the type `bytes`.
constexpr bool held_as(dtype type, dtype bytes) noexcept {
    if (bytes == dtype::int8) return type == dtype::int4 || type == dtype::int2;
    return bytes == dtype::uint8 && type >= dtype::float8e4m3fn && type != dtype::int4 && type != dtype::int2;
}
[[noreturn]] void refuse_type(dtype type, dtype asked);
}  // namespace detail

/// An array of one element type. Contiguous, row-major; copying shares the memory. Elements below one byte
/// (int4 and the like) take one byte each, and bool is one byte, 0 or 1.
class tensor {
public:
    tensor() noexcept = default;
    /// Over memory that exists; `data` holds at least bytes_of(type, extents) bytes.
    tensor(dtype type, const shape& extents, buffer data) noexcept : data_(std::move(data)), shape_(extents), type_(type) {}

    /// New memory, not initialised. `budget`: what it counts against for as long as anybody holds it (null: nothing). `of`: what it is taken
    /// from (null: the system). Errors: tensor.overflow, tensor.dtype, memory.oom, memory.budget.
    static result<tensor> make(dtype type, const shape& extents, const std::shared_ptr<memory_budget>& budget = nullptr, buffer::slab* of = nullptr);
    /// New memory, all bytes zero.
    static result<tensor> zeros(dtype type, const shape& extents);
    /// A copy of `extents.elements()` values.
    template <class T>
    static result<tensor> from(const T* values, const shape& extents) {
        auto made = make(dtype_of<T>::value, extents);
        if (made.ok() && made->bytes()) std::memcpy(made->raw(), values, made->bytes());
        return made;
    }
    /// Over the caller's memory, which must outlive every use.
    template <class T>
    static tensor borrow(const T* values, const shape& extents) noexcept {
        return tensor(dtype_of<T>::value, extents, buffer::borrow(values, static_cast<std::size_t>(extents.elements()) * sizeof(T)));
    }
    template <class T>
    static result<tensor> scalar(T value) {
        return from(&value, graft::shape{});
    }

    dtype type() const noexcept { return type_; }
    const graft::shape& shape() const& noexcept { return shape_; }
    graft::shape shape() && noexcept { return shape_; }
    std::int64_t elements() const noexcept { return shape_.elements(); }
    std::size_t bytes() const noexcept { return static_cast<std::size_t>(elements()) * size_of(type_); }
    /// Whether there is a tensor at all (a default-made one has no type).
    explicit operator bool() const noexcept { return type_ != dtype::undefined; }
    std::byte* raw() const { return data_.data(); }
    const buffer& storage() const noexcept { return data_; }
    /// The same elements, to be read once: a weight that lies in a file is not kept in memory for it. Errors: memory.oom.
    result<tensor> to_read_once() const {
        auto lent = data_.to_read_once(0, data_.bytes());
        if (!lent.ok()) return lent.take_status();
        return tensor(type_, shape_, std::move(lent).value());
    }
    /// The elements. T is the C++ type of `type()`: float for float32, bool for boolean, and for what C++ has no type for
    /// std::int8_t (int4, int2) or std::uint8_t (uint4, uint2, floats of a byte or less). Another T is the error tensor.dtype, which
    /// is thrown (or ends the program, without exceptions); `raw()` asks nothing.
    template <class T>
    T* data() const {
        constexpr dtype asked = dtype_of<std::remove_cv_t<T>>::value;
        if (asked != type_ && !detail::held_as(type_, asked)) detail::refuse_type(type_, asked);
        return reinterpret_cast<T*>(data_.data());
    }
    /// The same memory seen with another shape of as many elements.
    tensor reshaped(const graft::shape& extents) const noexcept { return tensor(type_, extents, data_); }

private:
    buffer data_;
    graft::shape shape_;
    dtype type_ = dtype::undefined;
};

/// Element `i` as a double, whatever the type; 0 for types without a numeric value.
double element_as_double(dtype type, const void* data, std::int64_t i) noexcept;
/// Element `i` as a 64-bit integer (floats are cut, uint64 wraps).
std::int64_t element_as_int64(dtype type, const void* data, std::int64_t i) noexcept;

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "convert.hpp"
GRAFT_BEGIN_NAMESPACE
GRAFT_INLINE GRAFT_COLD void detail::refuse_type(dtype type, dtype asked) {
    const std::string held = type == dtype::undefined ? "there is no tensor" : std::string("the elements are ") + name(type);
    raise({errc::tensor_dtype, "tensor::data", held + "; they were asked for as " + name(asked)});
}
GRAFT_INLINE GRAFT_COLD result<tensor> tensor::make(dtype type, const graft::shape& extents, const std::shared_ptr<memory_budget>& budget,
                                                    buffer::slab* of) GRAFT_MEMORY_TRY {
    if (!size_of(type)) return fail(errc::tensor_dtype, name(type), "tensors of this element type cannot be made");
    const std::int64_t bytes = bytes_of(type, extents);
    if (bytes < 0) return fail(errc::tensor_overflow, text(extents), "the size of this shape overflows");
    const auto size = static_cast<std::size_t>(bytes);
    auto memory = of ? of->allocate(size, budget) : buffer::allocate(size, budget);
    if (!memory.ok()) return memory.take_status();
    return tensor(type, extents, std::move(memory).value());
}
GRAFT_MEMORY_CATCH("tensor::make")
GRAFT_INLINE result<tensor> tensor::zeros(dtype type, const graft::shape& extents) GRAFT_MEMORY_TRY {
    auto made = make(type, extents);
    if (made.ok() && made->bytes()) std::memset(made->raw(), 0, made->bytes());
    return made;
}
GRAFT_MEMORY_CATCH("tensor::zeros")
GRAFT_INLINE double element_as_double(dtype type, const void* data, std::int64_t i) noexcept {
    double value = 0;
    load_as_double(type, data, i, 1, &value);
    return value;
}
GRAFT_INLINE std::int64_t element_as_int64(dtype type, const void* data, std::int64_t i) noexcept {
    std::int64_t value = 0;
    load_as_int64(type, data, i, 1, &value);
    return value;
}
GRAFT_END_NAMESPACE
#endif
