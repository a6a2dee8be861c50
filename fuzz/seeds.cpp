// Writes the files that fuzzing begins with: fuzz_seeds DIR makes DIR/TARGET/NAME for each target (onnx for three of them),
// and DIR/onnx.dict. All are made here, out of what the
// tests build, the op table's problems and texts of the documentation.
#include "../tests/data/golden.hpp"
#include "../tests/exec/nets.hpp"
#include "../tests/io/wire_model.hpp"

#include <graft/dist/store_protocol.hpp>
#include <graft/train.hpp>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>

namespace {

using bytes = std::vector<std::uint8_t>;
using graft::builder;
using graft::dtype;

constexpr std::size_t most_bytes = 4096;  // small files are bent often

std::filesystem::path root;

void write(const std::string& folder, std::string name, const void* data, std::size_t size) {
    std::replace_if(
        name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
    std::filesystem::create_directories(root / folder);
    std::ofstream file(root / folder / name, std::ios::binary);
    file.write(static_cast<const char*>(data), static_cast<std::streamsize>(size));
}
void write(const std::string& target, const std::string& name, const std::string& text) { write(target, name, text.data(), text.size()); }
void write(const std::string& target, const std::string& name, const bytes& data) { write(target, name, data.data(), data.size()); }

void write_model(const std::string& name, const graft::graph& g) {
    bytes out;
    const graft::status done = graft::write_onnx(g, out);
    if (!done.ok()) std::fprintf(stderr, "%s: %s\n", name.c_str(), done.error().what());
    if (!done.ok() || out.size() > most_bytes) return;
    write("onnx", name, out);
}

// Every problem of the op table, its inputs given and, behind the first, constant.
void operators() {
    const graft::ops::table_list all = graft::ops::all_op_tables();
    for (const auto& table : all)
        for (const auto& row : table) {
            if (row.flags & graft::op_flag::bodies) continue;
            int number = 0;
            for (const std::string& text : problems::split(row.problems, ';')) {
                problems::problem p = problems::read(row, text);
                const std::string name = std::string(row.name) + "_" + std::to_string(row.since) + "_" + std::to_string(number++);
                if (!p.error.empty()) continue;
                write_model(name, p.g);
                if (p.inputs.size() < 2) continue;
                for (std::size_t i = 1; i < p.inputs.size(); ++i) p.g.at(p.g.inputs[i]).constant = p.inputs[i];
                p.g.inputs.resize(1);
                write_model(name + "_constant", p.g);
            }
        }
}

graft::graph finished(builder& b) { return b.finish().value(); }

// Networks of several layers, as small as they can be.
void networks() {
    {
        builder b("classifier", 1);
        graft::conv2d_options three;
        three.kernel = 3, three.padding = 1;
        auto x = b.input("image", dtype::float32, {"N", 3, 6, 6});
        x = b.relu(b.batch_norm(b.conv2d(x, 4, three)));
        const auto left = b.conv2d(b.relu(b.conv2d(x, 4, three)), 4);
        x = b.max_pool(b.relu(b.add(left, x)));
        b.output(b.softmax(b.linear(b.flatten(x), 3)), "probabilities");
        write_model("network_residual", finished(b));
    }
    {
        builder b("dense", 2);
        auto x = b.input("x", dtype::float32, {"N", 5});
        x = b.relu(b.linear(x, 6));
        b.output(b.linear(x, 3), "logits");
        write_model("network_dense", finished(b));
    }
    {
        builder b("attention", 3);
        const auto x = b.input("x", dtype::float32, {"N", 4, 6});
        nets::numbers random{3};
        const auto weight = [&](const char* name) { return b.constant(name, nets::random_tensor({6, 6}, random)); };
        const auto q = b.apply("MatMul", {x, weight("q")}), k = b.apply("MatMul", {x, weight("k")}), v = b.apply("MatMul", {x, weight("v")});
        const auto scores = b.apply("MatMul", {q, b.apply("Transpose", {k}, {graft::integers_attribute("perm", {0, 2, 1})})});
        const auto mixed = b.add(b.apply("MatMul", {b.softmax(scores), v}), x);
        const auto normal =
            b.apply("LayerNormalization", {mixed, b.constant("scale", nets::random_tensor({6}, random)), b.constant("bias", nets::random_tensor({6}, random))});
        const auto pooled = b.apply("ReduceMean", {normal}, {graft::integers_attribute("axes", {1}), graft::integer_attribute("keepdims", 0)});
        b.output(b.apply("Gemm", {pooled, b.constant("head", nets::random_tensor({6, 3}, random))}), "logits");
        write_model("network_attention", finished(b));
    }
    {
        builder b("data dependent", 4);
        const auto x = b.input("x", dtype::float32, {"N", 3});
        const auto found = b.apply("NonZero", {x});
        b.output(b.apply("GatherND", {x, b.apply("Transpose", {found})}), "values");
        b.output(b.apply("Shape", {found}), "count");
        write_model("network_nonzero", finished(b));
    }
    {
        builder b("shapes", 5);
        const auto x = b.input("x", dtype::float32, {"N", 2, 4});
        const auto batch = b.apply("Slice", {b.apply("Shape", {x}), b.constant("from", nets::integers({0})), b.constant("to", nets::integers({1}))});
        b.output(b.apply("Reshape", {x, b.apply("Concat", {batch, b.constant("rest", nets::integers({-1}))}, {graft::integer_attribute("axis", 0)})}), "y");
        write_model("network_shapes", finished(b));
    }
}

// Control flow: bodies that capture, nest and stop.
void bodies() {
    {
        builder b("if");
        const auto x = b.input("x", dtype::float32, {"N"}), choose = b.input("choose", dtype::boolean, {});
        nets::body_builder plus("plus"), times("times");
        plus.b.output(plus.b.apply("Add", {plus.capture(dtype::float32, x), plus.b.constant("one", nets::floats({1}))}), "sum");
        times.b.output(times.b.apply("Neg", {times.capture(dtype::float32, x)}), "product");
        b.output(b.apply("If", {choose}, {graft::graph_attribute("then_branch", plus.finish()), graft::graph_attribute("else_branch", times.finish())}), "y");
        write_model("body_if", finished(b));
    }
    {
        builder b("loop");
        const auto trips = b.input("trips", dtype::int64, {}), start = b.input("start", dtype::float32, {1}), step = b.input("step", dtype::float32, {1});
        nets::body_builder body("body");
        body.b.input("i", dtype::int64, {});
        const auto go_on = body.b.input("go_on", dtype::boolean, {});
        const auto next = body.b.apply("Add", {body.b.input("sum", dtype::float32, {1}), body.capture(dtype::float32, step)});
        body.b.output(body.b.apply("Identity", {go_on}), "go_on_out");
        body.b.output(next, "next");
        body.b.output(body.b.apply("Identity", {next}), "partial");
        const auto out = b.apply_all("Loop", {trips, graft::no_value, start}, {graft::graph_attribute("body", body.finish())}, 2);
        b.output(out[0], "last");
        b.output(out[1], "partials");
        write_model("body_loop", finished(b));
    }
    {
        builder b("scan");
        const auto start = b.input("start", dtype::float32, {2}), x = b.input("x", dtype::float32, {3, 2});
        nets::body_builder body("body");
        const auto sum = body.b.input("sum", dtype::float32, {2}), row = body.b.input("row", dtype::float32, {2});
        const auto next = body.b.apply("Add", {sum, row});
        body.b.output(next, "next");
        body.b.output(body.b.apply("Mul", {next, next}), "square");
        const auto out = b.apply_all("Scan", {start, x}, {graft::graph_attribute("body", body.finish()), graft::integer_attribute("num_scan_inputs", 1)}, 2);
        b.output(out[0], "last");
        b.output(out[1], "squares");
        write_model("body_scan", finished(b));
    }
}

// What no builder writes: functions, data in lists, external data, sparse tensors, unknown fields.
void files() {
    using namespace wire_model;
    using f = schema::function;
    const auto model = [](const message& g) { return message().integer(schema::model::ir_version, 8).part(schema::model::graph, g); };
    const auto import = [](const std::string& domain, int version) {
        return message().text(schema::operator_set::domain, domain).integer(schema::operator_set::version, version);
    };
    const auto graph_of = [](const message& call) {
        return message().part(schema::graph::node, call).part(schema::graph::input, value_info("x", {2})).part(schema::graph::output, value_info("y", {2}));
    };
    message twice, scaled, reference;
    twice.text(f::name, "twice")
        .text(f::domain, "own")
        .text(f::input, "a")
        .text(f::output, "b")
        .part(f::opset_import, import("", 17))
        .part(f::node, node("Add", {"a", "a"}, {"b"}));
    scaled.text(f::name, "scaled")
        .text(f::domain, "own")
        .text(f::input, "a")
        .text(f::output, "b")
        .text(f::attribute, "alpha")
        .part(f::opset_import, import("", 17))
        .part(f::opset_import, import("own", 1));
    reference.text(schema::attribute::name, "alpha")
        .text(schema::attribute::ref_attr_name, "alpha")
        .integer(schema::attribute::type, schema::attribute::is_float);
    message leaky = node("LeakyRelu", {"t"}, {"b"});
    leaky.part(schema::node::attribute, reference);
    scaled.part(f::node, node("twice", {"a"}, {"t"}, "own")).part(f::node, leaky);
    message call = node("scaled", {"x"}, {"y"}, "own");
    call.part(schema::node::attribute,
              message().text(schema::attribute::name, "alpha").real(schema::attribute::f, 0.5f).integer(schema::attribute::type, schema::attribute::is_float));
    message functions = model(graph_of(call));
    functions.part(schema::model::opset_import, import("", 17))
        .part(schema::model::opset_import, import("own", 1))
        .part(schema::model::functions, twice)
        .part(schema::model::functions, scaled);

    const auto with_weight = [&](const message& data) {
        message g = graph_of(node("Add", {"x", "w"}, {"y"}));
        g.part(schema::graph::initializer, wire_model::tensor("w", data));
        return model(g).part(schema::model::opset_import, import("", 17));
    };
    const auto weight = [](int type) { return message().integer(schema::tensor::dims, 2).integer(schema::tensor::data_type, type); };
    message listed = weight(1), packed = weight(6), wide = weight(11), outside = weight(1), text = weight(8);
    listed.real(schema::tensor::float_data, 1).real(schema::tensor::float_data, 2);
    packed.text(schema::tensor::int32_data, std::string("\1\2", 2));
    wide.text(schema::tensor::double_data, std::string(16, '\1'));
    text.text(schema::tensor::string_data, "a").text(schema::tensor::string_data, "b");
    outside.integer(schema::tensor::data_location, 1)
        .part(schema::tensor::external_data, message().text(schema::entry::key, "location").text(schema::entry::value, "w.bin"));
    message metadata = with_weight(listed);
    metadata.part(schema::model::metadata_props, message().text(schema::entry::key, "labels").text(schema::entry::value, "a,b"))
        .text(schema::model::producer_name, "seeds")
        .text(schema::model::doc_string, "made");
    message group = with_weight(listed);
    group.raw({0x9b, 0x06, 0x08, 0x01, 0x9c, 0x06});  // field 99, a group with a number in it
    const std::pair<const char*, const message*> all[] = {{"functions", &functions}, {"metadata", &metadata}, {"group", &group}};
    for (const auto& m : all) write("onnx", std::string("file_") + m.first, m.second->data);
    int number = 0;
    for (const message* m : {&listed, &packed, &wide, &outside, &text}) write("onnx", "file_data_" + std::to_string(number++), with_weight(*m).data);
    for (const message* m : {&twice, &functions, &group, &listed}) write("protobuf", "message_" + std::to_string(number++), m->data);
}

std::string from_base64(const char* text) {
    static const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string out;
    unsigned bits = 0, held = 0;
    for (; *text && *text != '='; ++text) {
        held = held << 6 | static_cast<unsigned>(digits.find(*text));
        if ((bits += 6) >= 8) out += static_cast<char>(held >> (bits -= 8) & 255);
    }
    return out;
}

// Pictures that Pillow wrote for the tests of the decoders.
void pictures() {
    for (const golden_picture& picture : golden_pictures) {
        const std::string name = picture.name, file = from_base64(picture.file);
        const std::string kind = file.compare(1, 3, "PNG") == 0 ? "png" : file[0] == '\xff' ? "jpeg" : file[0] == 'B' ? "bmp" : file[0] == 'P' ? "pnm" : "webp";
        if (file.size() <= most_bytes) write(kind, name, file);
        // What is packed in a PNG, without zlib's header of two bytes and its checksum behind: a stream of its own.
        const std::size_t at = file.find("IDAT");
        if (kind != "png" || at == std::string::npos || file.size() > 1024) continue;
        const std::size_t length = static_cast<unsigned char>(file[at - 2]) * 256u + static_cast<unsigned char>(file[at - 1]);
        if (length > 6) write("gzip", name, file.substr(at + 6, length - 6));
    }
    write("pnm", "plain bits", "P1\n# drawn\n3 2\n1 0 1\n0 1 0\n");
    write("pnm", "plain gray", "P2 3 1 15\n0 7 15\n");
    write("pnm", "plain colour", "P3\n1 2\n255\n1 2 3\n4 5 6\n");
    write("pnm", "wide gray", std::string("P5 2 1 65535\n\1\2\3\4", 17));
    write("exif", "little", std::string("II*\0\10\0\0\0\2\0\x0f\1\2\0\4\0\0\0abc\0\x12\1\3\0\1\0\0\0\6\0\0\0\0\0\0\0", 38));
    write("exif", "big", std::string("Exif\0\0MM\0*\0\0\0\10\0\1\1\x12\0\3\0\0\0\1\0\10\0\0\0\0\0\0", 32));
    write("exif", "far", std::string("II*\0\10\0\0\0\1\0\x12\1\4\0\2\0\0\0\x1a\0\0\0\0\0\0\0\3\0\0\0\1\0\0\0", 34));
    write("exif", "xmp", "<x:xmpmeta><rdf:Description tiff:Orientation=\"6\"/><tiff:Orientation>3</tiff:Orientation></x:xmpmeta>");
}

void arrays() {
    nets::numbers random{1};
    graft::named_tensors tensors;
    for (const dtype type : {dtype::float32, dtype::float64, dtype::float16, dtype::bfloat16, dtype::int8, dtype::uint8, dtype::int16, dtype::int32,
                             dtype::int64, dtype::boolean}) {
        const graft::tensor t = nets::random_tensor({2, 3}, random, 0, 2, type);
        tensors.emplace_back(graft::name(type), t);
        if (type == dtype::bfloat16) continue;
        std::string npy = graft::npy_header(type, t.shape()).value();
        npy.append(reinterpret_cast<const char*>(t.raw()), t.bytes());
        write("npy", graft::name(type), npy);
    }
    const std::string dictionary = "{'descr': '<f4', 'fortran_order': True, 'shape': (2L, 1), }          \n";
    write("npy", "fortran", std::string("\x93NUMPY\2\0", 8) + static_cast<char>(dictionary.size()) + std::string(3, '\0') + dictionary + std::string(8, '\1'));
    tensors.emplace_back("scalar", nets::random_tensor({}, random));
    tensors.emplace_back("empty", nets::random_tensor({0, 4}, random));
    bytes file;
    for (const bool all : {true, false}) {
        if (!all) tensors.resize(1);
        if (graft::write_safetensors(tensors, {{"format", "pt"}, {"by", "a \"test\""}}, file).ok()) write("safetensors", all ? "all types" : "one", file);
    }
    if (graft::write_safetensors({}, {}, file).ok()) write("safetensors", "none", file);

    graft::checkpoint c;
    c.tensors = {{"weight", nets::random_tensor({2, 3}, random)}, {"weight.exp_avg", nets::random_tensor({2, 3}, random)}};
    c.settings = {{"batch", "16"}, {"rate", "0x1.999999999999ap-4"}};
    c.state = {{"step", "1200"}, {"epoch", "3"}};
    const std::string path = (root / "made.safetensors").string();
    if (graft::save_checkpoint(path, c).ok()) {
        std::ifstream in(path, std::ios::binary);
        write("checkpoint", "whole", std::string((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>()));
    }
    std::filesystem::remove(path);

    const std::string packed = (root / "made.packed").string();
    graft::load_options options;
    options.device = "cpu";
    builder b("net", 5);
    b.output(b.linear(b.flatten(b.global_average_pool(b.relu(b.conv2d(b.input("x", dtype::float32, {1, 3, 8, 8}), 2)))), 2), "y");
    if (auto opened = graft::open_packed_weights(packed, nullptr); opened.ok()) options.packed = *opened;
    if (graft::load(b.finish().value(), options).ok()) {
        std::ifstream in(packed, std::ios::binary);
        write("packed", "whole", std::string((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>()));
    }
    std::filesystem::remove(packed);
}

void datasets() {
    const auto four = [](int n) { return std::string("\0\0\0", 3) + static_cast<char>(n); };
    const std::string pictures = std::string("\0\0\10\3", 4) + four(2) + four(3) + four(2) + std::string(12, '\x40'),
                      labels = std::string("\0\0\10\1", 4) + four(2) + std::string("\0\1", 2);
    write("idx", "plain", std::string(1, '\0') + static_cast<char>(pictures.size()) + pictures + labels);
    // Packed without compression: a stored block, and the checksum and size of labels.
    const std::string gzip = std::string("\x1f\x8b\10\0\0\0\0\0\0\3", 10),
                      stored = std::string("\1\12\0\xf5\xff", 5) + labels + std::string("\x8f\x9c\x9b\xe2\12\0\0\0", 8);
    write("idx", "packed", std::string(1, '\0') + static_cast<char>(pictures.size()) + pictures + gzip + stored);
    write("gzip", "stored", gzip + stored);
    write("gzip", "named", std::string("\x1f\x8b\10\x1f\0\0\0\0\0\3\2\0xya.bin\0note\0\1\2", 28) + stored);
    write("gzip", "stream", stored.substr(0, stored.size() - 8));
    write("gzip", "fixed", std::string("\x1f\x8b\10\0\0\0\0\0\2\3\x63\x60\xe0\x60\x64\x60\x60\x60\x62\x60\4\0\x8f\x9c\x9b\xe2\12\0\0\0", 30));
    write("cifar", "ten", std::string("\0\0\0\0\1\2", 6));
    write("cifar", "hundred", std::string("\1\0\0\3\7\11", 6));
    write("cifar", "cut", std::string("\0\1\2\3", 4));
    write("csv", "plain", "path,label\na.ppm,cat\nb.pgm,dog\n");
    write("csv", "quoted", "\xef\xbb\xbfsplit,path,label\r\ntrain,\"a.ppm\",\"a \"\"cat\"\"\"\r\nval,b.pgm,dog\r\n\r\ntest,a.ppm,dog\r\n");
    write("csv", "numbers", "label,path\n1,a.ppm\n0,b.pgm\n1,../a.ppm\n");
}

void texts() {
    const char* json[] = {R"({"a": [1, -2.5e3, true, null, "x\u00e9\n"], "b": {"c": {}}})",
                          R"([])",
                          R"("\ud83d\ude00 \\ \/ \b\f\r\t")",
                          R"([0, -0, 0.1, 1e-400, 12345678901234567890, 9223372036854775807])",
                          R"([[[[[[]]]]]])",
                          R"({"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})"};
    int number = 0;
    for (const char* text : json) write("json", "text " + std::to_string(number++), text);
    const char* specs[] = {"imagenet",
                           "imagenet,crop=224",
                           "unit,resize=256,crop=224x192",
                           "mean=123.675:116.28:103.53,std=58.395:57.12:57.375,fraction=0.9",
                           "resize=28x28,order=gray,raw,layout=nhwc,filter=bicubic,dtype=int8",
                           "scale=0.5:0.25:1",
                           "default,random_vertical_flip=0.1,random_rotation=-10:15",
                           "color_jitter=0.4:0.4:0.4:0.1,random_grayscale,random_erasing=0.25,erasing_value=random",
                           "rand_augment=2:9:31,mixup=0.2,cutmix",
                           "trivial_augment_wide,interpolation=bilinear,fill=128",
                           "random_resized_crop=0.08:1:0.75:1.3333,none",
                           "cosine=0.01,warmup=0.05",
                           "step=10:0.1,warmup=100",
                           "multistep=30/60:0.1",
                           "onecycle=0.01:0.3,start_divisor=10",
                           "plateau=0.1:3,cooldown=2,threshold=0.01,minimum=1e-6",
                           "constant"};
    for (const char* text : specs) write("specs", "spec " + std::to_string(number++), text);
    write("specs", "preprocess", text(graft::parse_preprocess("imagenet").value()));
    write("specs", "augmentation", text(graft::default_augmentation()));
    write("specs", "schedule", text(graft::schedule()));
    write("specs", "plateau", text(graft::plateau_state()));
    const char* lines[] = {
        "doctor\n--json",
        "info\nmodel.onnx\n--placement\n--train\n16",
        "run\nmodel.onnx\n-i\nx=a.npy\n--input=y=b.npy\n-o\nout",
        "classify\nmodel.onnx\na.png\nb.png\n--top\n3\n--csv\n--unsure=0.5\n--device\ncuda:1",
        "explain\nm.onnx\na.png\n--out\nd\n--label\ncat",
        "finetune\ndata\n--from\nm.onnx\n-o\nout\n--epochs\n3\n--lr\n1e-3\n--freeze\nnone\n--rate\nconv.*=0.1\n--schedule\ncosine\n--augment\nflip\n--max-"
        "ram\n2GiB",
        "train\ndata\n--arch\nlenet\n--out=out\n--batch\nauto\n--optimizer\nsgd\n--nesterov\n--class-weights\nbalanced\n--loss\nfocal\n--shards\n8",
        "evaluate\nm.onnx\ndata\n--bad-share\n0.1\n--preprocess\nimagenet",
        "check\ndata\n--allow-empty\n--quiet",
        "augment\ndata\n--preview\na.png\n--images\n4",
        "bench\nm.onnx\n--train\nhead\n--rounds\n3\n--memory-limit\n4GiB\n--threads\n2",
        "decode\na.jpg\n-o\na.npy",
        "preprocess\na.jpg\n--model\nm.onnx\n-o\na.npy\n--seed\n7",
        "monitor\n--interval\n0.5\n--count\n2",
        "--help",
        "--version",
        "finetune\n--help",
        "fintune\ndata",
        "train\n--lerning-rate\n1"};
    for (const char* line : lines) write("options", "line " + std::to_string(number++), line);
}

// What the store and its ranks say, a frame each and together.
void frames() {
    using graft::detail::store_kind;
    const std::string number("\1\0\0\0\0\0\0\0", 8);
    const struct {
        store_kind kind;
        std::string body;
    } said[] = {{store_kind::set, graft::detail::keyed("key", "value")},
                {store_kind::get, graft::detail::keyed("key")},
                {store_kind::add, graft::detail::keyed("count", number)},
                {store_kind::erase, graft::detail::keyed("key")},
                {store_kind::leave, "why\n"},
                {store_kind::goodbye, ""},
                {store_kind::refused, std::string(1, '\2') + "late"},
                {store_kind::left, std::string(4, '\0') + "it ended"}};
    std::string all;
    for (std::size_t i = 0; i < std::size(said); ++i) {
        std::string one;
        graft::detail::put_frame(one, said[i].kind, i, said[i].body);
        write("store", "frame " + std::to_string(i), one);
        all += one;
    }
    write("store", "frames", all);
}

// What clients send to `graft serve`.
void requests() {
    const std::string get = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", post = "POST /v1/predict?top=1 HTTP/1.1\r\nHost: x\r\nContent-Type: image/png\r\n";
    write("http", "several", get + post + "Content-Length: 3\r\n\r\nabc" + get);
    write("http", "chunks", post + "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n3;x=y\r\nabc\r\n0\r\nTrailer: z\r\n\r\n");
    write("http", "old",
          "PUT /v2 HTTP/1.0\r\nConnection: keep-alive\r\nExpect: 100-continue\r\nInference-Header-Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}");
}

// The names of operators and of their attributes, as libFuzzer reads dictionaries.
void dictionary() {
    std::set<std::string> names;
    for (const graft::op_table& table : graft::ops::all_op_tables())
        for (const graft::op_row& row : table) {
            names.insert(row.name);
            for (const std::string& known : problems::split(row.attributes, ' ')) names.insert(known.substr(0, known.find(':')));
        }
    std::ofstream file(root / "onnx.dict");
    for (const std::string& name : names) file << '"' << name << "\"\n";
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) return std::fprintf(stderr, "usage: fuzz_seeds DIR\n"), 2;
    root = argv[1];
    std::filesystem::create_directories(root);
    operators();
    networks();
    bodies();
    files();
    pictures();
    arrays();
    datasets();
    texts();
    frames();
    requests();
    dictionary();
    return 0;
}
