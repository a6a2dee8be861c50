// The loader: equal batches whatever the threads, resuming, bad samples, mixing, and clean ends at any moment.
#include "pictures.hpp"

#include <graft/data/loader.hpp>
#include <graft/data/png_encode.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>
#include <thread>
#if !defined(_WIN32)
#include <sys/stat.h>
#include <unistd.h>
#endif

using namespace graft;

#if !defined(_WIN32)
namespace {

// An image folder of two classes, gone with the object. Sizes differ from picture to picture.
class picture_folder {
public:
    explicit picture_folder(int count, const std::set<int>& bad = {}) {
        char name[] = "/tmp/graft-loader-XXXXXX";
        REQUIRE(::mkdtemp(name));
        path = name;
        for (const char* kind : {"/a", "/b"}) REQUIRE(::mkdir((path + kind).c_str(), 0777) == 0);
        for (int i = 0; i < count; ++i) {
            std::string file = encode_png(noise(40 + i % 7 * 5, 36 + i % 5 * 9, 3)).value();
            if (bad.count(i)) file.resize(file.size() / 2);
            char digits[16];
            std::snprintf(digits, sizeof digits, "/%04d.png", i);
            files.push_back(path + (i % 2 ? "/b" : "/a") + digits);
            std::ofstream(files.back(), std::ios::binary) << file;
        }
    }
    ~picture_folder() {
        for (const std::string& file : files) ::unlink(file.c_str());
        for (const char* kind : {"/a", "/b", ""}) ::rmdir((path + kind).c_str());
    }
    dataset open() const { return open_dataset(path).value(); }
    std::string path;
    std::vector<std::string> files;
};

loader_options options_of(const std::string& augment, int workers = 2, int ahead = 3) {
    loader_options o;
    o.sample.preprocess = parse_preprocess("imagenet,crop=32").value();
    o.sample.augment = parse_augmentation(augment).value();
    o.sample.seed = 17;
    o.batch_size = 8;
    o.workers = workers;
    o.ahead = ahead;
    return o;
}

std::uint32_t sum_of(const batch& b) {
    std::uint32_t sum = crc_of(b.inputs.raw(), b.inputs.bytes());
    const auto add = [&sum](const auto& v) { sum = sum * 31 + crc_of(v.data(), v.size() * sizeof v[0]); };
    add(b.labels), add(b.indices), add(b.other_labels), add(b.lambda);
    for (const bad_sample& bad : b.bad) sum = sum * 31 + static_cast<std::uint32_t>(bad.index);
    return sum;
}

std::vector<std::uint32_t> epoch_of(loader& l, std::int64_t epoch, std::int64_t first = 0) {
    std::vector<std::uint32_t> sums;
    REQUIRE(l.start(epoch, first).ok());
    batch b;
    for (std::int64_t i = first; i < l.batches(); ++i) {
        const status s = l.next(b);
        REQUIRE_MESSAGE(s.ok(), (s.ok() ? "" : s.error().what()));
        CHECK(b.number == i);
        sums.push_back(sum_of(b));
    }
    return sums;
}

const char* const everything = "default,color_jitter=0.2:0.2:0.2:0.05,rand_augment,random_erasing=0.5,erasing_value=random,mixup=0.4,cutmix=1";

}  // namespace

TEST_CASE("batches are the same for 1, 2 and 5 threads and any number ahead") {
    const picture_folder folder(45, {3, 20});
    const dataset data = folder.open();
    std::vector<std::uint32_t> expected;
    for (const int workers : {1, 2, 5})
        for (const int ahead : {1, 2, 7}) {
            loader_options o = options_of(everything, workers, ahead);
            o.bad_share = 0.1;
            loader l = loader::make(data, o).value();
            REQUIRE(l.batches() == 6);
            std::vector<std::uint32_t> sums = epoch_of(l, 3);
            if (expected.empty()) expected = sums;
            CHECK(sums == expected);
            // Another epoch is another order; the same one again, begun in its middle, is the same.
            CHECK(epoch_of(l, 4) != expected);
            const std::vector<std::uint32_t> rest = epoch_of(l, 3, 4);
            CHECK(rest == std::vector<std::uint32_t>(expected.begin() + 4, expected.end()));
        }
}

TEST_CASE("evaluation gives every picture once, in order, as `preprocess` makes it") {
    const picture_folder folder(19);
    const dataset data = folder.open();
    for (const char* spec : {"imagenet,crop=32", "crop=24x28,fraction=0.8,caffe", "resize=30x20,order=gray,unit", "crop=32,signed,layout=nhwc",
                             "crop=16,order=gray,layout=nhwc", "crop=32,raw,dtype=uint8", "crop=20,mean=128,scale=0.01,dtype=float16"}) {
        INFO(std::string(spec));
        loader_options o = options_of("none");
        o.sample.preprocess = parse_preprocess(spec).value();
        o.shuffle = false;
        loader l = loader::make(data, o).value();
        REQUIRE(l.start(0).ok());
        batch b;
        std::int64_t at = 0;
        for (std::int64_t i = 0; i < l.batches(); ++i) {
            REQUIRE(l.next(b).ok());
            const std::size_t bytes = b.inputs.bytes() / static_cast<std::size_t>(b.size());
            for (std::int64_t k = 0; k < b.size(); ++k, ++at) {
                CHECK(b.indices[static_cast<std::size_t>(k)] == at);
                CHECK(b.labels[static_cast<std::size_t>(k)] == data.label(at));
                const tensor one = preprocess(data.read(at).value(), o.sample.preprocess).value();
                CHECK(one.type() == b.inputs.type());
                REQUIRE(one.bytes() == bytes);
                CHECK(std::memcmp(one.raw(), b.inputs.raw() + static_cast<std::size_t>(k) * bytes, bytes) == 0);
            }
        }
        CHECK(at == 19);
        CHECK(l.next(b).error().code() == errc::usage);
    }
}

TEST_CASE("a training sample is crop, changes and normalisation, one after the other") {
    const picture_folder folder(6);
    const dataset data = folder.open();
    for (const char* spec : {"imagenet,crop=32", "caffe,crop=32x24", "unit,crop=32,order=gray", "imagenet,crop=32,layout=nhwc,filter=bicubic"}) {
        loader_options o = options_of("random_resized_crop,random_horizontal_flip,random_rotation=20,color_jitter=0.3");
        o.sample.preprocess = parse_preprocess(spec).value();
        o.batch_size = 6;
        loader l = loader::make(data, o).value();
        REQUIRE(l.start(5).ok());
        batch b;
        REQUIRE(l.next(b).ok());
        const preprocess_spec whole = complete(o.sample.preprocess).value();
        for (std::int64_t k = 0; k < b.size(); ++k) {
            const std::int64_t index = b.indices[static_cast<std::size_t>(k)];
            image picture = data.read(index).value();
            if (whole.order == preprocess_spec::channels::gray) picture = to_gray(picture).value();
            const random_stream stream = data_stream(17, random_purpose::sample, 5, index);
            random_sequence first(stream), second(stream, detail::draws_of_pixels);
            const crop_box box = random_crop_box(picture.height, picture.width, o.sample.augment.scale, o.sample.augment.ratio, first);
            picture = resize(crop(picture, box.top, box.left, box.height, box.width).value(), whole.crop_height, whole.crop_width, whole.kernel).value();
            const tensor one = to_tensor(augment_pixels(picture, o.sample.augment, second).value(), whole).value();
            INFO(std::string(spec), " ", index);
            CHECK(std::memcmp(one.raw(), b.inputs.raw() + static_cast<std::size_t>(k) * one.bytes(), one.bytes()) == 0);
        }
    }
}

TEST_CASE("bad samples are left out, named and counted, up to the share allowed") {
    const picture_folder folder(40, {7, 11});
    const dataset data = folder.open();
    loader_options o = options_of("none");
    o.shuffle = false;
    o.bad_share = 0.05;
    loader l = loader::make(data, o).value();
    REQUIRE(l.start(0).ok());
    batch b;
    std::int64_t seen = 0;
    std::vector<std::string> names;
    for (std::int64_t i = 0; i < l.batches(); ++i) {
        REQUIRE(l.next(b).ok());
        seen += b.size();
        CHECK(b.inputs.shape()[0] == b.size());
        CHECK(b.indices.size() == static_cast<std::size_t>(b.size()));
        for (const bad_sample& bad : b.bad) {
            CHECK(bad.code == errc::image_truncated);
            names.push_back(bad.name);
            CHECK(data.name(bad.index) == bad.name);
        }
    }
    CHECK(seen == 38);
    CHECK(names.size() == 2);

    o.bad_share = 0;
    l = loader::make(data, o).value();
    REQUIRE(l.start(0).ok());
    status s;
    std::int64_t good = 0;
    for (; s.ok() && good < l.batches(); ++good) s = l.next(b);
    REQUIRE(!s.ok());
    CHECK(s.error().code() == errc::data_too_many_bad);
    CHECK(s.error().where() == names[0]);
    CHECK(s.error().detail().find("2 of 40 pictures cannot be read, 0 may") != std::string::npos);

    o.strict = true;
    o.bad_share = 1;
    l = loader::make(data, o).value();
    REQUIRE(l.start(0).ok());
    s = {};
    for (good = 0; s.ok() && good < l.batches(); ++good) s = l.next(b);
    REQUIRE(!s.ok());
    CHECK(s.error().code() == errc::image_truncated);
}

TEST_CASE("a picture that vanishes in the middle of an epoch is a bad sample; an empty batch is one too") {
    const picture_folder folder(16);
    const dataset data = folder.open();
    for (int i = 0; i < 16; ++i)
        if (i % 2 == 0) ::unlink(folder.files[static_cast<std::size_t>(i)].c_str());  // all of class a, the first batch
    loader_options o = options_of("mixup=0.2");
    o.shuffle = false;
    o.bad_share = 1;
    loader l = loader::make(data, o).value();
    REQUIRE(l.start(0).ok());
    batch b;
    REQUIRE(l.next(b).ok());
    CHECK(b.size() == 0);
    CHECK(b.inputs.shape()[0] == 0);
    CHECK(b.bad.size() == 8);
    CHECK(b.bad[0].code == errc::data_open);
    REQUIRE(l.next(b).ok());
    CHECK(b.size() == 8);
    CHECK(b.lambda.size() == 8);
}

TEST_CASE("pictures that vanish, shrink and grow in the middle of an epoch leave the order of the others as it was") {
    const picture_folder folder(48);
    const dataset data = folder.open();
    loader_options o = options_of("none", 2, 1);
    o.bad_share = 0.1;
    loader l = loader::make(data, o).value();
    std::vector<std::int64_t> order, seen;
    batch b;
    REQUIRE(l.start(2).ok());
    for (std::int64_t i = 0; i < l.batches(); ++i) {
        REQUIRE(l.next(b).ok());
        order.insert(order.end(), b.indices.begin(), b.indices.end());
    }
    REQUIRE(order.size() == 48);
    // One batch ahead: the fourth and the later ones are made once the first has been taken.
    REQUIRE(l.start(2).ok());
    REQUIRE(l.next(b).ok());
    seen = b.indices;
    const auto file_of = [&](std::size_t place) { return data.name(order[place]); };
    ::unlink(file_of(30).c_str());
    REQUIRE(::truncate(file_of(33).c_str(), 100) == 0);
    std::ofstream(file_of(36), std::ios::binary | std::ios::app) << std::string(100000, 'x');
    std::ofstream(file_of(47), std::ios::binary) << "GIF89a, which the name does not say";
    std::vector<bad_sample> bad;
    for (std::int64_t i = 1; i < l.batches(); ++i) {
        REQUIRE(l.next(b).ok());
        CHECK(b.size() + static_cast<std::int64_t>(b.bad.size()) == 8);
        CHECK(b.inputs.shape()[0] == b.size());
        seen.insert(seen.end(), b.indices.begin(), b.indices.end());
        bad.insert(bad.end(), b.bad.begin(), b.bad.end());
    }
    REQUIRE(bad.size() == 3);
    const std::size_t places[] = {30, 33, 47};
    const errc codes[] = {errc::data_open, errc::image_truncated, errc::image_unsupported};
    for (std::size_t i = 3; i-- > 0;) {
        CHECK(bad[i].index == order[places[i]]);
        CHECK(bad[i].name == file_of(places[i]));
        CHECK(bad[i].code == codes[i]);
        order.erase(order.begin() + static_cast<std::ptrdiff_t>(places[i]));
    }
    CHECK(seen == order);
}

TEST_CASE("one sample in a hundred may be bad where nothing else is said, and one in any case") {
    const auto outcome = [](const picture_folder& folder, double share, batch& b) {
        const dataset data = folder.open();
        loader_options o = options_of("none");
        o.bad_share = share;
        loader l = loader::make(data, o).value();
        REQUIRE(l.start(0).ok());
        status s;
        for (std::int64_t i = 0; s.ok() && i < l.batches(); ++i) s = l.next(b);
        return s;
    };
    const double usual = loader_options().bad_share;
    batch b;
    for (const int count : {3, 20, 100}) CHECK(outcome(picture_folder(count, {1}), usual, b).ok());
    CHECK(!outcome(picture_folder(20, {1}), 0, b).ok());
    CHECK(!outcome(picture_folder(2, {1}), usual, b).ok());  // one picture is nothing to learn from
    CHECK(outcome(picture_folder(200, {1, 150}), usual, b).ok());
    CHECK(allowed_bad(0.29, 100) == 29);
    CHECK(allowed_bad(0.01, 0) == 0);
    CHECK(allowed_bad(1, 5) == 5);
}

TEST_CASE("where too many samples are bad, the error names some and a share that does") {
    const picture_folder folder(99, {3, 21, 50, 51, 98});
    const dataset data = folder.open();
    for (const bool shuffle : {false, true}) {
        loader_options o = options_of("none", 2, 1);
        o.shuffle = shuffle;
        o.bad_share = loader_options().bad_share;
        loader l = loader::make(data, o).value();
        REQUIRE(l.start(0).ok());
        batch b;
        status s;
        std::set<std::string> met;
        for (std::int64_t i = 0; s.ok() && i < l.batches(); ++i) {
            s = l.next(b);
            for (const bad_sample& bad : b.bad) met.insert(bad.name);
        }
        REQUIRE(!s.ok());
        CHECK(s.error().code() == errc::data_too_many_bad);
        const std::string& what = s.error().detail();
        // All are counted, also those that no batch has come to.
        CHECK(what.find("5 of 99 pictures cannot be read, 1 may. This one: image.truncated: ") == 0);
        for (const std::string& name : met) CHECK((s.error().where() == name || what.find(name) != std::string::npos));
        CHECK(met.size() >= 2);
        const std::size_t at = what.find("--bad-share ");
        REQUIRE(at != std::string::npos);
        const double share = std::strtod(what.c_str() + at + 12, nullptr);
        CHECK(share == doctest::Approx(0.051));
        CHECK(allowed_bad(share, 99) == 5);
        o.bad_share = share;
        l = loader::make(data, o).value();
        REQUIRE(l.start(0).ok());
        for (std::int64_t i = 0; i < l.batches(); ++i) CHECK(l.next(b).ok());
    }
}

TEST_CASE("a mixed batch says whom each sample was mixed with") {
    const picture_folder folder(16);
    const dataset data = folder.open();
    loader plain = loader::make(data, options_of("none")).value(), mixed = loader::make(data, options_of("mixup=1")).value();
    REQUIRE(plain.start(2).ok());
    REQUIRE(mixed.start(2).ok());
    batch a, b;
    for (int i = 0; i < 2; ++i) {
        REQUIRE(plain.next(a).ok());
        REQUIRE(mixed.next(b).ok());
        CHECK(a.indices == b.indices);
        CHECK(a.other_labels.empty());
        REQUIRE(b.lambda.size() == 8);
        const std::int64_t n = a.inputs.elements() / 8;
        for (int k = 0; k < 8; ++k) {
            const auto before = static_cast<std::size_t>((k + 7) % 8);
            CHECK(b.other_labels[static_cast<std::size_t>(k)] == a.labels[before]);
            const float own = a.inputs.data<float>()[k * n], other = a.inputs.data<float>()[static_cast<std::int64_t>(before) * n];
            const float share = b.lambda[static_cast<std::size_t>(k)];
            CHECK(b.inputs.data<float>()[k * n] == doctest::Approx(share * own + (1 - share) * other).epsilon(1e-5));
        }
    }
}

TEST_CASE("a teacher sees the same samples, changed in the same way, in its own size, layout and type") {
    const picture_folder folder(21, {5});
    const dataset data = folder.open();
    const auto batches_of = [&](loader_options o, const char* spec) {
        o.bad_share = 1;
        o.teacher = teacher_view{parse_preprocess(spec).value(), {}};
        loader from = loader::make(data, o).value();
        REQUIRE(from.start(3).ok());
        std::vector<batch> all(static_cast<std::size_t>(from.batches()));
        for (batch& b : all) REQUIRE(from.next(b).ok());
        return all;
    };
    // In the same size and colours it is the same picture, to the byte, whatever is drawn: crops, flips, colours, erasing, mixing.
    for (const char* changes :
         {"none", "random_resized_crop=0.3:1,random_horizontal_flip,color_jitter=0.4:0.4:0.4:0.1,random_erasing=0.5,mixup=0.4,cutmix=1"}) {
        CAPTURE(changes);
        for (const batch& b : batches_of(options_of(changes), "imagenet,crop=32")) {
            REQUIRE(b.teacher_inputs.shape() == b.inputs.shape());
            CHECK(!std::memcmp(b.teacher_inputs.raw(), b.inputs.raw(), b.inputs.bytes()));
        }
    }
    // Bytes that a network takes as they are, gray and interleaved: as many as the batch has, also where one is missing.
    std::int64_t seen = 0;
    for (const batch& b : batches_of(options_of("random_resized_crop=0.3:1,random_erasing=1"), "raw,crop=16,order=gray,layout=nhwc,dtype=uint8")) {
        CHECK(b.teacher_inputs.shape() == shape{b.size(), 16, 16, 1});
        CHECK(b.teacher_inputs.type() == dtype::uint8);
        seen += b.size();
    }
    CHECK(seen == 20);
    // Twice as large, and made smaller again: nearly the same, and far from another sample.
    loader_options o = options_of("random_resized_crop=0.5:1,random_horizontal_flip=0.5");
    o.sample.preprocess = parse_preprocess("unit,crop=16").value();
    for (const batch& b : batches_of(o, "unit,crop=32")) {
        const float *small = b.inputs.data<float>(), *large = b.teacher_inputs.data<float>();
        const auto difference = [&](std::int64_t i, std::int64_t other) {
            double sum = 0;
            for (std::int64_t c = 0; c < 3; ++c)
                for (std::int64_t y = 0; y < 16; ++y)
                    for (std::int64_t x = 0; x < 16; ++x) {
                        const float* at = large + ((other * 3 + c) * 32 + 2 * y) * 32 + 2 * x;
                        sum +=
                            std::fabs(static_cast<double>(small[((i * 3 + c) * 16 + y) * 16 + x]) - static_cast<double>(at[0] + at[1] + at[32] + at[33]) / 4);
                    }
            return sum / (3 * 16 * 16);
        };
        for (std::int64_t i = 0; i < b.size(); ++i) CHECK(difference(i, i) < 0.5 * difference(i, (i + 1) % b.size()));
    }
    // What cannot be mixed is refused.
    o.sample.augment = parse_augmentation("mixup=0.4").value();
    o.teacher = teacher_view{parse_preprocess("raw,crop=16,dtype=uint8").value(), {}};
    CHECK(loader::make(data, o).error().code() == errc::usage);
}

TEST_CASE("the last batch is ragged, or left out") {
    const picture_folder folder(19);
    loader_options o = options_of("none");
    loader l = loader::make(folder.open(), o).value();
    CHECK(l.batches() == 3);
    REQUIRE(l.start(0, 2).ok());
    batch b;
    REQUIRE(l.next(b).ok());
    CHECK(b.size() == 3);
    o.drop_last = true;
    CHECK(loader::make(folder.open(), o).value().batches() == 2);
}

TEST_CASE("the memory of batches is used again, unless somebody holds it") {
    const picture_folder folder(40);
    loader l = loader::make(folder.open(), options_of("none", 2, 2)).value();
    std::set<const void*> memory;
    batch b;
    for (int epoch = 0; epoch < 4; ++epoch) {
        REQUIRE(l.start(epoch).ok());
        for (std::int64_t i = 0; i < l.batches(); ++i) {
            REQUIRE(l.next(b).ok());
            memory.insert(b.inputs.raw());
        }
    }
    CHECK(memory.size() <= 5);
    REQUIRE(l.start(9).ok());
    REQUIRE(l.next(b).ok());
    const tensor held = b.inputs;
    const std::uint32_t before = crc_of(held.raw(), held.bytes());
    for (std::int64_t i = 1; i < l.batches(); ++i) {
        REQUIRE(l.next(b).ok());
        CHECK(b.inputs.raw() != held.raw());
    }
    CHECK(crc_of(held.raw(), held.bytes()) == before);
}

TEST_CASE("a loader can be stopped, started again and destroyed at any moment") {
    const picture_folder folder(30);
    const dataset data = folder.open();
    for (int round = 0; round < 40; ++round) {
        loader l = loader::make(data, options_of(everything, 1 + round % 4, 1 + round % 3)).value();
        batch b;
        CHECK(l.next(b).error().code() == errc::usage);
        REQUIRE(l.start(round).ok());
        for (int i = 0; i < round % 5; ++i)
            if (i < l.batches()) REQUIRE(l.next(b).ok());
        if (round % 3 == 0) l.stop();
        if (round % 3 == 0) CHECK(l.next(b).error().code() == errc::usage);
        if (round % 2) REQUIRE(l.start(round + 1, l.batches()).ok());
        if (round % 2) CHECK(l.next(b).error().code() == errc::usage);
        if (round % 4 == 3) REQUIRE(l.start(0).ok());
    }
}

TEST_CASE("the time that the caller waits is told") {
    const picture_folder folder(16);
    loader l = loader::make(folder.open(), options_of("none")).value();
    REQUIRE(l.start(0).ok());
    batch b;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    REQUIRE(l.next(b).ok());
    CHECK(l.elapsed_seconds() >= 0.1);
    CHECK(l.waited_seconds() <= l.elapsed_seconds() - 0.05);
}

TEST_CASE("options that make no sense are refused") {
    const picture_folder folder(4);
    const dataset data = folder.open();
    const auto code = [&data](void (*change)(loader_options&)) {
        loader_options o = options_of("none");
        change(o);
        const auto made = loader::make(data, o);
        return made.ok() ? std::string("ok") : std::string(text(made.error().code()));
    };
    CHECK(code([](loader_options&) {}) == "ok");
    CHECK(code([](loader_options& o) { o.batch_size = 0; }) == "usage");
    CHECK(code([](loader_options& o) { o.workers = -1; }) == "usage");
    CHECK(code([](loader_options& o) { o.ahead = 0; }) == "usage");
    CHECK(code([](loader_options& o) { o.bad_share = 1.5; }) == "usage");
    CHECK(code([](loader_options& o) { o.sample.preprocess = {}; }) == "usage.preprocess");
    CHECK(code([](loader_options& o) { o.sample.preprocess = parse_preprocess("resize=32,crop=none").value(); }) == "usage.preprocess");
    CHECK(code([](loader_options& o) {
              o.sample.preprocess = parse_preprocess("crop=32,dtype=uint8").value();
              o.sample.augment.mixup = 1;
          }) == "usage");
    CHECK(code([](loader_options& o) { o.sample.preprocess = parse_preprocess("crop=32,order=gray,mean=1:2:3").value(); }) == "usage.preprocess");
    loader l = loader::make(data, options_of("none")).value();
    CHECK(l.start(0, 2).error().code() == errc::usage);
    CHECK(l.start(-1).error().code() == errc::usage);
    batch b;
    CHECK(loader().next(b).error().code() == errc::usage);
    CHECK(loader().batches() == 0);
}
#endif
