// JPEG files to training batches: images a second with 1, 2, ... threads, and what the parts of it cost.
// Build: g++ -std=c++17 -O2 -DGRAFT_HAS_LIBJPEG=1 -Iinclude bench/loader.cpp -o bench_loader -ljpeg -pthread
// Run:   ./bench_loader FOLDER [WORKERS [SPEC [AUGMENT [CACHE_FOLDER]]]]
// bench/loader_torchvision.py times torchvision's DataLoader on the same folder with the same transforms.
#include <graft/data/loader.hpp>

#include <chrono>
#include <cstdio>
#include <string>

using namespace graft;

namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Seconds for each picture of `f(i)`, on this thread, best of three rounds.
template <class F>
double seconds_each(std::int64_t n, F f) {
    double best = 1e9;
    for (int round = 0; round < 3; ++round) {
        const double began = now();
        for (std::int64_t i = 0; i < n; ++i) f(i);
        best = std::min(best, (now() - began) / static_cast<double>(n));
    }
    return best;
}

void parts(const dataset& data, const sample_options& options) {
    const std::int64_t n = std::min<std::int64_t>(data.size(), 200);
    std::vector<image> pictures;
    const double decoding = seconds_each(n, [&](std::int64_t i) { static_cast<void>(data.read(i).value()); });
    for (std::int64_t i = 0; i < n; ++i) pictures.push_back(data.read(i).value());
    const sample_maker samples = sample_maker::make(data, options).value();
    const double resizing = seconds_each(n, [&](std::int64_t i) {
        const image& p = pictures[static_cast<std::size_t>(i)];
        random_sequence random(data_stream(0, random_purpose::sample, 0, i));
        const crop_box box = random_crop_box(p.height, p.width, options.augment.scale, options.augment.ratio, random);
        static_cast<void>(resized_crop(p, box, samples.height(), samples.width()).value());
    });
    std::vector<std::byte> out(static_cast<std::size_t>(samples.sample_bytes()));
    const double all = seconds_each(n, [&](std::int64_t i) { must(samples.write(i, 0, out.data())); });
    std::printf("one thread, microseconds a picture: read and decode %.0f, crop and resize %.0f, everything %.0f (%.0f images/s)\n", decoding * 1e6,
                resizing * 1e6, all * 1e6, 1 / all);
}

}  // namespace

int main(int count, char** arguments) {
    if (count < 2) return std::fprintf(stderr, "usage: %s FOLDER [WORKERS [SPEC [AUGMENT [CACHE_FOLDER]]]]\n", arguments[0]), 2;
    const dataset data = open_dataset(arguments[1]).value();
    loader_options options;
    options.workers = count > 2 ? std::stoi(arguments[2]) : 0;
    options.sample.preprocess = parse_preprocess(count > 3 ? arguments[3] : "imagenet,crop=224").value();
    options.sample.augment = parse_augmentation(count > 4 ? arguments[4] : "random_resized_crop,random_horizontal_flip").value();
    if (count > 5) options.sample.cache = image_cache::open(arguments[5]).value();
    options.bad_share = 1;
    parts(data, options.sample);
    loader l = loader::make(data, options).value();
    double best = 0;
    batch b;
    for (int epoch = 0; epoch < 5; ++epoch) {
        const double began = now();
        std::int64_t images = 0;
        must(l.start(epoch));
        for (std::int64_t i = 0; i < l.batches(); ++i) {
            must(l.next(b));
            images += b.size();
        }
        const double rate = static_cast<double>(images) / (now() - began);
        std::printf("epoch %d: %.0f images/s\n", epoch, rate);
        best = std::max(best, rate);
    }
    std::printf("best: %.0f images/s\n", best);
}
