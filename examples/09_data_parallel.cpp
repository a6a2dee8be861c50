// Fine-tunes on replicas of a network that share every batch, and shows that the model is the one that a single one makes, to the byte.
//   build   g++ -std=c++17 -O2 -Iinclude examples/09_data_parallel.cpp -o data_parallel -pthread
//   run     ./data_parallel apps/graft/demo/model.onnx apps/graft/demo/new_pictures 2
//   prints  2 replicas made the model that one makes: the same bytes
#include <graft/dist.hpp>

#include <cstdio>
#include <fstream>
#include <iterator>

static std::string bytes_of_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

int main(int count, char** arguments) try {
    if (count < 4) return std::fprintf(stderr, "usage: %s MODEL FOLDER REPLICAS\n", arguments[0]), 2;
    graft::finetune_options how;
    how.epochs = 2;
    how.overwrite = true;
    how.out = "alone";
    graft::finetune(arguments[2], arguments[1], how).value();

    // The one change: steps are made by somebody who spreads them. `how.batch` is that of all replicas together.
    graft::replica_options spread;
    spread.replicas = std::atoi(arguments[3]);
    how.step.replicas = graft::make_replicas(spread);
    how.out = "together";
    graft::finetune(arguments[2], arguments[1], how).value();

    const bool same = bytes_of_file("alone/model.onnx") == bytes_of_file("together/model.onnx");
    std::printf("%d replicas made the model that one makes: %s\n", spread.replicas, same ? "the same bytes" : "other bytes");
} catch (const graft::error& e) {
    return std::fprintf(stderr, "%s\n", e.what()), 1;
}
