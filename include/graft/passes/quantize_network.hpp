// A float network as one of eight-bit integers: QuantizeLinear and DequantizeLinear around what computes, weights stored as integers.
#pragma once

#include "../graph/graph.hpp"
#include "range_observer.hpp"

#include <string>
#include <vector>

GRAFT_BEGIN_NAMESPACE

/// The operator set that quantised weights with a scale for each channel need.
constexpr int quantized_opset = 13;

/// Makes a float32 network ready: raised to operator set 13 where it is older, batch normalisation folded into the convolutions before it, a name for every
/// node. Nodes have to be bound (`verify_graph`), and stay so. Errors: quantize.nothing (it is quantised already, or has nothing to quantise),
/// model.version (an operator means something else in operator set 13), op.type (other floating types), memory.oom.
result<graph> prepare_to_quantize(graph g);

/// The nodes of a prepared network that can be quantised, by name, in their order.
std::vector<std::string> quantizable_nodes(const graph& g);

/// The values whose ranges have to be known, in the order in which they are made. Some may turn out not to be float32: their ranges stay unknown, and who
/// reads them stays as it is.
result<std::vector<value_id>> values_to_observe(const graph& g);

/// The prepared network with pairs of QuantizeLinear and DequantizeLinear: activations uint8 with a scale and zero point for the tensor, symmetric weights
/// with a scale for each output channel, biases int32 with the product of both. `ranges`: by value id. `keep`: names of nodes that stay float. `weights`:
/// uint8 with zero point 128, or int8 with 0, of the same numbers; int8 is what ONNX Runtime and OpenVINO add up in 16 bits on x86 without VNNI, where
/// sums saturate. Metadata stay, but for `graft.golden`, which is the float network's answer. Errors: input.name (`keep` names none that could be quantised),
/// quantize.nothing (none is left), usage (`weights`), memory.oom.
result<graph> quantize_network(const graph& g, const std::vector<value_range>& ranges, const std::vector<std::string>& keep, dtype weights = dtype::uint8);

/// The same network with its weights and biases still in float32, the weights rounded by pairs behind them: it can learn (quantisation-aware training, Jacob
/// et al., 2018), and `store_quantized` makes of it what `quantize_network` gives. Errors: those of `quantize_network`.
result<graph> quantize_to_learn(const graph& g, const std::vector<value_range>& ranges, const std::vector<std::string>& keep, dtype weights = dtype::uint8);

/// Stores constants that QuantizeLinear reads as the integers that it makes of them, and biases between quantised values and weights as int32. Errors:
/// memory.oom.
result<graph> store_quantized(graph g);

GRAFT_END_NAMESPACE

#if GRAFT_HAS_BODIES
#include "quantize_network_body.hpp"
#endif
