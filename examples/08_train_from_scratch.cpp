// Trains LeNet from random weights on pictures that it draws itself: discs, squares and crosses of any size, place and brightness.
//   build   g++ -std=c++17 -O2 -Iinclude examples/08_train_from_scratch.cpp -o train_from_scratch -pthread
//   run     ./train_from_scratch shapes
//   prints  3 classes, 192 pictures to learn from, 48 to score by
//   prints  cross disc square
//   prints  after training, nine tenths or more of the 48 are right
#include <graft/train.hpp>

#include <cmath>
#include <cstdio>
#include <filesystem>

constexpr int side = 28, pictures = 80;

// One gray picture as a PGM file, decided by its number.
static bool draw(const std::string& path, const std::string& shape, std::uint64_t number) {
    const graft::random_stream random(1, number);
    std::uint64_t drawn = 0;
    const auto between = [&](double low, double high) { return low + (high - low) * random.uniform(drawn++); };
    const double x = between(9, 19), y = between(9, 19), radius = between(5, 9), ink = between(120, 255), ground = between(0, 60);
    std::string bytes = "P5\n28 28\n255\n";
    for (int row = 0; row < side; ++row)
        for (int column = 0; column < side; ++column) {
            const double across = std::fabs(column - x), down = std::fabs(row - y);
            const bool inside = shape == "disc"     ? std::hypot(across, down) < radius
                                : shape == "square" ? across < radius * 0.85 && down < radius * 0.85
                                                    : std::fmin(across, down) < radius * 0.3 && std::fmax(across, down) < radius;
            bytes += static_cast<char>(static_cast<unsigned char>(std::fmin(255, (inside ? ink : ground) + between(0, 40))));
        }
    std::FILE* file = std::fopen(path.c_str(), "wb");
    if (!file) return false;
    const bool whole = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
    return std::fclose(file) == 0 && whole;
}

int main(int count, char** arguments) try {
    if (count < 2) return std::fprintf(stderr, "usage: %s FOLDER\n", arguments[0]), 2;
    std::uint64_t number = 0;
    for (const char* shape : {"disc", "square", "cross"}) {
        const std::string folder = std::string(arguments[1]) + "/pictures/" + shape;
        std::filesystem::create_directories(folder);
        for (int i = 0; i < pictures; ++i)
            if (!draw(folder + "/" + std::to_string(i) + ".pgm", shape, number++)) return std::fprintf(stderr, "cannot write into %s\n", folder.c_str()), 1;
    }
    const graft::dataset_splits data = graft::open_splits(std::string(arguments[1]) + "/pictures");
    const auto& names = data.training.classes();
    std::printf("%zu classes, %lld pictures to learn from, %lld to score by\n", names.size(), static_cast<long long>(data.training.size()),
                static_cast<long long>(data.validation.size()));
    std::printf("%s %s %s\n", names[0].c_str(), names[1].c_str(), names[2].c_str());

    graft::architecture_options lenet;
    lenet.classes = static_cast<std::int64_t>(names.size());
    const graft::model untrained = graft::load(graft::build_architecture("lenet", lenet));  // or what a graft::builder made: see 05_build_network.cpp
    graft::training_network network;
    network.graph = untrained.graph();
    network.logits = graft::logits_of(network.graph);
    network.parameters = graft::parameters_of(network.graph);

    graft::trainer_options how;
    how.epochs = 30, how.batch = 16, how.learning_rate = 0.003;
    how.augmentation = graft::parse_augmentation("none");
    how.preprocess = graft::parse_preprocess(graft::default_preprocess("lenet"));
    how.out = std::string(arguments[1]) + "/trained", how.overwrite = true;
    graft::training_observer silent;
    const graft::training_result done = graft::train(network, data, how, silent);
    std::printf("after training, %s of the 48 are right\n", done.best_top1 >= 0.9 ? "nine tenths or more" : "less than nine tenths");
} catch (const graft::error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
}
