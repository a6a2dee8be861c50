// Teaches a network the classes of a folder of pictures, in C; Ctrl-C stops in order, and what was reached is on disk.
//   build   cc -std=c99 -O2 examples/c/finetune.c $(pkg-config --cflags --libs graft-c) -o finetune
//   run     ./finetune apps/graft/demo/new_pictures apps/graft/demo/model.onnx finetuned
//   prints  4 classes, 20 epochs
//   prints  the best epoch names nine tenths or more right
#include <graft.h>

#include <signal.h>
#include <stdio.h>

static volatile sig_atomic_t interrupted;

static void interrupt(int which) {
    (void)which;
    interrupted = 1;
}

static int show(const graft_progress* at, void* context) {
    (void)context;
    if (at->event == GRAFT_EPOCH) fprintf(stderr, "epoch %ld of %ld: top-1 %.3f\n", (long)at->epoch, (long)at->epochs, at->top1);
    if (at->event == GRAFT_WARNING) fprintf(stderr, "warning: %s\n", at->text);
    return interrupted;
}

int main(int count, char** arguments) {
    graft_training_result result = {0};
    graft_error* error = NULL;
    graft_options* options = graft_options_new();
    int code = 1;
    if (count < 4) return fprintf(stderr, "usage: %s FOLDER MODEL OUT\n", arguments[0]), 2;
    signal(SIGINT, interrupt);
    result.size = sizeof result;
    // This network is small: large ones do well by the defaults.
    if (graft_options_set(options, "epochs", "20", &error) == GRAFT_OK && graft_options_set(options, "lr", "0.01", &error) == GRAFT_OK &&
        graft_options_set(options, "overwrite", "true", &error) == GRAFT_OK &&
        graft_finetune(arguments[1], arguments[2], arguments[3], options, show, NULL, &result, &error) == GRAFT_OK) {
        printf("%ld classes, %ld epochs\n", (long)result.classes, (long)result.epochs);
        printf("the best epoch names %s right\n", result.best_top1 >= 0.9 ? "nine tenths or more" : "less than nine tenths");
        code = 0;
    } else {
        fprintf(stderr, "%s\n", graft_error_message(error));
    }
    graft_error_free(error);
    graft_options_free(options);
    return code;
}
