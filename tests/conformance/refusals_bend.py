"""How refusals.py bends one field of a model."""
import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, numpy_helper

BENT = "bent"  # the text beside an output whose declared shape may be true no longer
WHOLE = [-1, -2, -7, 0, 1, 2, 3, 7, 64, 2**31, -(2**31), 2**62]
TYPES = [TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT32, TensorProto.INT64, TensorProto.UINT8, TensorProto.INT8, TensorProto.BOOL,
         TensorProto.FLOAT16, TensorProto.UINT64]
KINDS = {AttributeProto.INT: "i", AttributeProto.FLOAT: "f", AttributeProto.STRING: "s", AttributeProto.TENSOR: "t", AttributeProto.GRAPH: "g",
         AttributeProto.INTS: "ints", AttributeProto.FLOATS: "floats", AttributeProto.STRINGS: "strings"}


def nodes_of(graph):
    """The nodes of a graph and of the bodies in it."""
    for node in graph.node:
        yield node
        for a in node.attribute:
            if a.type == AttributeProto.GRAPH:
                yield from nodes_of(a.g)


def version_of(m):
    return next((o.version for o in m.opset_import if o.domain in ("", "ai.onnx")), 0)


def bend(m, given, other, dice):
    """Bends one field of `m`, and `given`, its inputs, where that asks for it; gives what was done, or None. Outputs whose declared shapes may be true
    no longer are marked."""
    node = dice.choice(list(nodes_of(m.graph)))
    how = dice.choices([attribute, default, wiring, an_input, constant, body, operator, around], [6, 4, 3, 5, 3, 2, 1, 3])[0]
    if how is not around:
        for o in m.graph.output:
            o.doc_string = BENT
    return how(m, node, given, other, dice)


def attribute(m, node, given, other, dice):
    if not node.attribute:
        return None
    a = dice.choice(node.attribute)
    what = f"attribute {a.name}"
    how = dice.randrange(12)
    if how == 0:
        node.attribute.remove(a)
        return what + " left out"
    if how == 1:
        a.type = dice.choice([t for t in KINDS if t != a.type])
        return what + " of another type"
    if how == 2:
        node.attribute.append(a)
        return what + " given twice"
    return bend_value(a, what, dice)


def bend_value(a, what, dice):
    if a.type == AttributeProto.INT:
        a.i = dice.choice(WHOLE)
    elif a.type in (AttributeProto.INTS, AttributeProto.FLOATS, AttributeProto.STRINGS):
        values = getattr(a, KINDS[a.type])
        how = dice.randrange(6)
        if how == 0 or not values:
            values.append(values[-1] if values else {AttributeProto.INTS: 1, AttributeProto.FLOATS: 1.0, AttributeProto.STRINGS: b"bogus"}[a.type])
            return what + " longer"
        if how == 1:
            del values[dice.randrange(len(values))]
            return what + " shorter"
        at = dice.randrange(len(values))
        if how == 2:
            values[at] = dice.choice(values)
            return what + " with an entry twice"
        values[at] = dice.choice({AttributeProto.INTS: WHOLE, AttributeProto.FLOATS: [float("nan"), -1.0, 0.0, 2.0], AttributeProto.STRINGS: [b"bogus", b""]}[a.type])
    elif a.type == AttributeProto.FLOAT:
        a.f = dice.choice([float("nan"), float("inf"), -1.0, 0.0, 2.0])
    elif a.type == AttributeProto.STRING:
        a.s = dice.choice([b"bogus", b"", a.s.upper(), a.s + b" "])
    elif a.type == AttributeProto.TENSOR:
        return bend_tensor(a.t, what, dice)
    else:
        return None
    return what


def bend_tensor(t, what, dice):
    how = dice.randrange(4)
    if how == 0:
        t.dims.append(dice.choice([0, 1, 2, -1]))
        return what + " of one dimension more"
    if how == 1 and t.dims:
        at = dice.randrange(len(t.dims))
        t.dims[at] += dice.choice([-1, 1, 2])
        return what + " with other dimensions"
    if how == 2:
        t.data_type = dice.choice([0, 99, *TYPES])
        return what + " declared of another type"
    array = numpy_helper.to_array(t)
    changed = array.astype(onnx.helper.tensor_dtype_to_np_dtype(dice.choice(TYPES)), casting="unsafe")
    t.CopyFrom(numpy_helper.from_array(changed, t.name))
    return what + " converted to another type"


def default(m, node, given, other, dice):
    """An attribute of the operator that the node leaves to its default, or one that no version has."""
    known = {}
    for version in (version_of(m), onnx.defs.onnx_opset_version()):
        try:
            known.update(onnx.defs.get_schema(node.op_type, version, node.domain).attributes)
        except Exception:
            pass
    names = [n for n in known if all(a.name != n for a in node.attribute)]
    a = node.attribute.add()
    if not names or dice.random() < 0.05:
        a.name, a.type, a.i = "bogus", AttributeProto.INT, 1
        return "an unknown attribute"
    a.name = dice.choice(names)
    a.type = int(known[a.name].type.value)
    if known[a.name].default_value.type and dice.random() < 0.5:
        a.CopyFrom(known[a.name].default_value)
        a.name = known[a.name].name
    return bend_value(a, f"attribute {a.name}", dice)


def wiring(m, node, given, other, dice):
    how = dice.randrange(7)
    if how == 0:
        node.output.append("bogus")
        return "an output too many"
    if how == 1 and node.output:
        del node.output[-1]
        return "an output left out"
    if how == 2 and node.output:
        node.output[dice.randrange(len(node.output))] = ""
        return "an output empty"
    if not node.input:
        return None
    at = dice.randrange(len(node.input))
    if how == 3:
        del node.input[-1]
        return "an input left out"
    if how == 4:
        node.input.append(node.input[at])
        return "an input too many"
    if how == 5:
        node.input[at] = ""
        return f"input {at} empty"
    node.input[at] = dice.choice(node.input)
    return f"input {at} taken from another place"


def an_input(m, node, given, other, dice):
    """Another type or shape of an input of the model."""
    found = [v for v in m.graph.input if v.name in given and v.type.HasField("tensor_type")]
    if not found:
        return None
    v = dice.choice(found)
    t = v.type.tensor_type
    if dice.random() < 0.4:
        t.elem_type = dice.choice(TYPES)
        given[v.name] = given[v.name].astype(onnx.helper.tensor_dtype_to_np_dtype(t.elem_type), casting="unsafe")
        return f"input {v.name} of another type"
    extents = list(given[v.name].shape)
    how = dice.randrange(4)
    if how == 0:
        extents.insert(dice.randrange(len(extents) + 1), dice.choice([1, 2]))
        what = "one dimension more"
    elif not extents:
        return None
    elif how == 1:
        del extents[dice.randrange(len(extents))]
        what = "one dimension less"
    else:
        extents[dice.randrange(len(extents))] = dice.choice([0, 1, 2, 3, 5])
        what = "another extent"
    if int(np.prod(extents)) > 1 << 20:
        return None
    array = np.zeros(extents, given[v.name].dtype)
    if array.size and given[v.name].size:
        array = np.resize(given[v.name], extents)
    given[v.name] = array
    del t.shape.dim[:]
    t.shape.SetInParent()
    told = dice.random() < 0.8
    for i, e in enumerate(extents):
        d = t.shape.dim.add()
        if told:
            d.dim_value = e
        else:
            d.dim_param = f"n{i}"
    return f"input {v.name} with {what}"


def constant(m, node, given, other, dice):
    """A constant of the model, or a small input made one, which shape inference reads then."""
    small = [v for v in m.graph.input if v.name in given and given[v.name].size <= 64 and given[v.name].dtype.kind in "iufb"]
    if m.graph.initializer and (not small or dice.random() < 0.5):
        t = dice.choice(m.graph.initializer)
        if dice.random() < 0.5:
            return bend_tensor(t, "a constant", dice)
        array, name = np.array(numpy_helper.to_array(t)), t.name
    elif small:
        v = dice.choice(small)
        array, name = np.array(given.pop(v.name)), v.name
        m.graph.input.remove(v)
        t = m.graph.initializer.add()
    else:
        return None
    place = next((f"input {list(n.input).index(name)}" for n in nodes_of(m.graph) if name in n.input), "a constant")
    how = dice.randrange(5)
    if how == 0:
        array = np.append(array.reshape(-1), array.reshape(-1)[-1:])
        what = "longer"
    elif how == 1:
        array = array.reshape(-1)[:-1]
        what = "shorter"
    elif array.size:
        flat = array.reshape(-1)
        flat[dice.randrange(flat.size)] = np.array(dice.choice(WHOLE)).astype(array.dtype)
        what = "of another value"
    else:
        return None
    t.CopyFrom(numpy_helper.from_array(array, name))
    return f"{place}, a constant, {what}"


def body(m, node, given, other, dice):
    """What If, Loop and Scan run, from outside: its inputs and outputs."""
    graphs = [a.g for n in nodes_of(m.graph) for a in n.attribute if a.type == AttributeProto.GRAPH]
    if not graphs:
        return None
    g = dice.choice(graphs)
    part, name = (g.input, "input") if dice.random() < 0.4 and g.input else (g.output, "output")
    how = dice.randrange(4)
    if not part:
        return None
    if how == 0:
        del part[-1]
        return f"a body with an {name} less"
    if how == 1:
        part.append(part[-1])
        return f"a body with an {name} twice"
    if how == 2:
        part[-1].type.tensor_type.elem_type = dice.choice(TYPES)
        return f"a body with an {name} of another type"
    part.append(onnx.helper.make_tensor_value_info("bogus", TensorProto.FLOAT, [1]))
    return f"a body with an {name} more"


def operator(m, node, given, other, dice):
    if dice.random() < 0.5:
        node.op_type = dice.choice(list(nodes_of(other.graph))).op_type
        return "another operator"
    m.opset_import[0].version = dice.randrange(1, 28)
    return "another opset"


def around(m, node, given, other, dice):
    """What stands around the nodes: the model's header, names, declarations."""
    g = m.graph
    how = dice.randrange(20)
    if how == 0:
        m.ir_version = dice.choice([0, 1, 2, 3, 99, -1])
        return f"IR version {m.ir_version}"
    if how == 1:
        del m.opset_import[:]
        return "no operator set"
    if how == 2:
        m.opset_import.add(domain="", version=dice.choice([0, 1, 7, 30, -1]))
        return "an operator set twice"
    if how == 3:
        m.opset_import[0].version = dice.choice([0, -1, 99, 2**40])
        return "an operator set that is none"
    if how == 4:
        g.name = ""
        return "a graph without a name"
    if how == 5:
        g.output.append(g.output[0])
        return "an output of the model twice"
    if how == 6 and g.input:
        g.input.append(g.input[0])
        return "an input of the model twice"
    if how == 7 and g.initializer:
        g.initializer.append(g.initializer[0])
        return "a constant twice"
    if how == 8 and len(g.node) > 1:
        nodes = list(g.node)
        dice.shuffle(nodes)
        del g.node[:]
        g.node.extend(nodes)
        return "nodes in another order"
    if how == 9:
        node.domain = dice.choice(["bogus", "ai.onnx", "ai.onnx.ml", "graft"])
        return f"domain {node.domain}"
    if how == 10:
        v = dice.choice(g.output)
        v.type.tensor_type.elem_type = dice.choice([0, 99, *TYPES])
        return "an output declared of another type"
    if how == 11:
        v = dice.choice(g.output)
        if not v.type.tensor_type.shape.dim or dice.random() < 0.3:
            v.type.tensor_type.shape.dim.add().dim_value = 2
        else:
            dice.choice(v.type.tensor_type.shape.dim).dim_value = dice.choice([0, 1, 7, -1])
        return "an output declared of another shape"
    if how == 12 and g.input:
        dice.choice(g.input).ClearField("type")
        return "an input without a type"
    if how == 13:
        dice.choice(g.output).ClearField("type")
        return "an output without a type"
    if how == 14:
        dice.choice(g.output).name = "bogus"
        return "an output that nothing makes"
    if how == 15 and node.output:
        node.output[0] = node.input[0] if node.input else node.output[0]
        return "a node that makes what it reads"
    if how == 16 and g.initializer:
        dice.choice(g.initializer).name = dice.choice(["", "bogus"])
        return "a constant of another name"
    if how == 17:
        g.value_info.append(onnx.helper.make_tensor_value_info(dice.choice([o for n in g.node for o in n.output] or ["y"]), dice.choice(TYPES), [3]))
        return "a value declared of another type or shape"
    if how == 18:
        for _ in range(2):
            m.metadata_props.add(key="a", value="b")
        return "metadata twice"
    if how == 19 and g.input:
        v = dice.choice(g.input)
        v.name = dice.choice(["", "bogus"])
        return "an input of another name"
    return None
