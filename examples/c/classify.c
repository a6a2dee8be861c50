// Names what is in pictures, in C.
//   build   cc -std=c99 -O2 examples/c/classify.c $(pkg-config --cflags --libs graft-c) -o classify
//   run     ./classify apps/graft/demo/model.onnx apps/graft/demo/pictures/moon-1.png apps/graft/demo/pictures/fish-2.png
//   prints  apps/graft/demo/pictures/moon-1.png: moon
//   prints  apps/graft/demo/pictures/fish-2.png: fish
#include <graft.h>

#include <stdio.h>

int main(int count, char** arguments) {
    if (count < 3) return fprintf(stderr, "usage: %s MODEL PICTURE...\n", arguments[0]), 2;
    graft_error* error = NULL;
    graft_classifier* classifier = graft_classifier_load(arguments[1], NULL, &error);
    for (int i = 2; !error && i < count; ++i) {
        graft_predictions* found = graft_classifier_classify_file(classifier, arguments[i], 1, &error);
        if (found) printf("%s: %s\n", arguments[i], graft_predictions_label(found, 0, 0));
        graft_predictions_free(found);
    }
    if (error) fprintf(stderr, "%s\n", graft_error_message(error));
    const int code = error != NULL;
    graft_error_free(error);
    graft_classifier_free(classifier);
    return code;
}
