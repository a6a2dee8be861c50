// Lowering of quantised networks: what stands between DequantizeLinear and QuantizeLinear, and is the same for all operators.
#pragma once

#include "../../lower/rewriter.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace detail {

//   QuantizeLinear(m(DequantizeLinear(x)))                 m(x), where m chooses among numbers or moves them, as MaxPool, Concat and Reshape do. What has
//                                                          another scale is looked up first
//   QuantizeLinear(Split(DequantizeLinear(x)) at part i)   Slice(x)
class quantized_pairs : public rewriter {
protected:
    quantized_pairs(graph& target, const lowering& with) : rewriter(target, with.on), with_(with) {}

    // One scale and one zero point: code = real / scale + zero.
    struct codes {
        float scale = 0;
        int zero = 0;
        bool is_signed = false;
        int low() const { return is_signed ? -128 : 0; }
        int high() const { return is_signed ? 127 : 255; }
        dtype type() const { return is_signed ? dtype::int8 : dtype::uint8; }
        bool operator==(const codes& o) const { return scale == o.scale && zero == o.zero && is_signed == o.is_signed; }
        bool operator!=(const codes& o) const { return !(*this == o); }
    };
    bool codes_of(dtype type, value_id scale, value_id zero, codes& out) {
        if (!ops::is_byte(type) || !is_float32(scale) || !scalar(scale, out.scale) || !std::isnormal(out.scale) || out.scale < 0) return false;
        out.is_signed = type == dtype::int8;
        if (zero == no_value) return true;
        const value& z = at(zero);
        if (!z.constant || z.type != type || z.constant.elements() != 1) return false;
        out.zero = static_cast<int>(element_as_double(z.type, z.constant.raw(), 0));
        return true;
    }
    static value_id input_of(const node& n, std::size_t i) { return i < n.inputs.size() ? n.inputs[i] : no_value; }
    // The 8-bit value that a real one is dequantised from; no_value: it is from none.
    value_id dequantized_from(value_id real, codes& out) {
        const node* d = maker(real);
        if (!d || ops::row_of(*d).traits.role != op_role::dequantize || !is_float32(real) || integer(*d, "block_size", 0)) return no_value;
        const value_id x = d->inputs[0];
        return codes_of(at(x).type, input_of(*d, 1), input_of(*d, 2), out) ? x : no_value;
    }

    // The codes that Relu and Clip on the way back from `real` leave. False: another value is met that takes no bounds.
    bool bounds(value_id& real, const codes& y, int& low, int& high) {
        low = y.low(), high = y.high();
        for (node* n = maker(real); n && used_once(real) && is_float32(real); n = maker(real)) {
            static constexpr struct {
                const char* op;
                float least;
                bool is_told;  // its bounds
            } cuts[] = {{"Relu", 0, false}, {"Clip", -HUGE_VALF, true}};
            const auto* cut = std::find_if(std::begin(cuts), std::end(cuts), [&](const auto& c) { return is(*n, c.op); });
            if (cut == std::end(cuts)) break;
            float least = cut->least, most = HUGE_VALF;
            if (cut->is_told) {
                if (n->version < 11) least = rewriter::real(*n, "min", -HUGE_VALF), most = rewriter::real(*n, "max", HUGE_VALF);
                const value_id min = input_of(*n, 1), max = input_of(*n, 2);
                if ((min != no_value && !scalar(min, least)) || (max != no_value && !scalar(max, most))) return false;
            }
            if (!(least <= most)) return false;
            // Rounding keeps the order, so that to cut reals off and round is to round and cut off.
            low = std::max(low, code(least, y));
            high = std::min(high, code(most, y));
            if (low > high) return false;
            real = n->inputs[0];
        }
        return true;
    }
    static int code(float real, const codes& y) {
        const double steps = std::nearbyint(static_cast<double>(real / y.scale)) + y.zero;
        return steps <= y.low() ? y.low() : steps >= y.high() ? y.high() : static_cast<int>(steps);
    }

    // Whether what comes out of an operator of ONNX are numbers that went in, or what Pad puts round them.
    bool moves_numbers(const node& m) const {
        if (!here(m) || !m.domain.empty()) return false;
        if (m.op_type == "Pad") return m.version >= 11;
        if (m.op_type == "Resize" || m.op_type == "Upsample")
            return text(m, "mode", "nearest") == "nearest" && text(m, "coordinate_transformation_mode", "") != "tf_crop_and_resize";
        return row(m).moves_numbers();
    }
    // n, the QuantizeLinear behind `from`, becomes that operator on codes.
    void move_codes(node& n, const node& from, const codes& y) {
        if (from.outputs.size() != 1) return;
        node moved = from;
        std::vector<codes> given(row(from).traits.moves == motion::join ? from.inputs.size() : 1);
        for (std::size_t i = 0; i < given.size(); ++i)
            if ((moved.inputs[i] = dequantized_from(from.inputs[i], given[i])) == no_value) return;
        const bool pads = is(from, "Pad");
        if (pads) {
            float border = 0;
            if (const value_id told = input_of(from, 2); told != no_value && !scalar(told, border)) return;
            moved.inputs.resize(std::max<std::size_t>(moved.inputs.size(), 3), no_value);
            if ((moved.inputs[2] = number(n, y.type(), shape{}, code(border, y))) == no_value) return;
        }
        const bool fewer = given.size() == 1 && !pads && at(n.outputs[0]).extents.elements() < at(moved.inputs[0]).extents.elements();
        put_codes(n, std::move(moved), given, y, fewer);
    }
    // n, the QuantizeLinear behind one part of a Split, becomes a Slice.
    void slice_codes(node& n, const node& split, const codes& y) {
        const op_row* slice = ops::find_op("", "Slice", newest_opset);
        const auto part = std::find(split.outputs.begin(), split.outputs.end(), n.inputs[0]);
        codes x;
        const value_id from = dequantized_from(split.inputs[0], x);
        if (!slice || !slice->run || from == no_value || part == split.outputs.end()) return;
        std::int64_t axis = integer(split, "axis", 0), start = 0;
        if (axis < 0) axis += at(from).extents.rank();
        const auto length = [&](value_id of) { return at(of).extents[static_cast<int>(axis)]; };
        for (auto before = split.outputs.begin(); before != part; ++before) start += length(*before);
        node moved;
        become(moved, "Slice", "");
        moved.inputs = {from};
        for (const std::int64_t of : {start, start + length(*part), axis}) {
            moved.inputs.push_back(number(n, dtype::int64, {1}, of));
            if (moved.inputs.back() == no_value) return;
        }
        put_codes(n, std::move(moved), {x}, y, true);
    }

private:
    // In the place of n: `moved`, and what changes the scale of its numbers before it, or behind it. Each is rounded as it would be behind it.
    void put_codes(node& n, node moved, const std::vector<codes>& given, const codes& y, bool behind) {
        moved.name = n.name;
        if (behind && given[0] != y) {
            const value_id between = like_codes(n.outputs[0], "_moved", given[0]);
            moved.outputs = {between};
            insert_before(n, std::move(moved));
            moved = look_up(n, between, given[0], n.outputs[0], y);
        } else {
            moved.outputs = n.outputs;
            for (std::size_t i = 0; i < given.size(); ++i) {
                if (given[i] == y) continue;
                const value_id rescaled = like_codes(moved.inputs[i], "_rescaled", y);
                insert_before(n, look_up(n, moved.inputs[i], given[i], rescaled, y));
                moved.inputs[i] = rescaled;
            }
        }
        if (failure_.ok()) edit(n, [&] { n = std::move(moved); });
    }
    value_id like_codes(value_id of, const char* suffix, const codes& with) {
        const value_id made = like(of, suffix);
        at(made).type = with.type();
        return made;
    }
    // Codes of one scale become those of another.
    node look_up(const node& in_place_of, value_id from, const codes& x, value_id to, const codes& y) {
        node made;
        auto table = tensor::make(dtype::uint8, shape{256}, with_.budget);
        if (!table.ok()) return failure_ = table.take_status(), made;
        for (int byte = 0; byte < 256; ++byte) {
            const int of = x.is_signed && byte > 127 ? byte - 256 : byte;
            table->data<std::uint8_t>()[byte] = static_cast<std::uint8_t>(code(static_cast<float>(of - x.zero) * x.scale, y));
        }
        become(made, "LookupTable", "graft");
        made.name = in_place_of.name;
        made.inputs = {from, g.add_constant(at(from).name + "_table", std::move(table).value())};
        made.outputs = {to};
        return made;
    }
    static std::string text(const node& m, const char* name, const char* otherwise) {
        const attribute* a = m.find(name);
        return a ? a->string : otherwise;
    }
    // A constant; no_value: memory is short.
    value_id number(const node& of, dtype type, const shape& extents, std::int64_t n) {
        auto made = tensor::make(type, extents, with_.budget);
        if (!made.ok()) return failure_ = made.take_status(), no_value;
        const double v = static_cast<double>(n);
        store_from_double(type, made->raw(), 0, 1, &v);
        return g.add_constant(of.name + "_number", std::move(made).value());
    }

protected:
    const lowering& with_;
    status failure_;
};

}  // namespace detail
GRAFT_END_NAMESPACE
