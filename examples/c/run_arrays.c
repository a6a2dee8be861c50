// Runs a model on an array of the program's own, in C: nothing is copied on the way in, and the answer is read where it lies.
//   build   cc -std=c99 -O2 examples/c/run_arrays.c $(pkg-config --cflags --libs graft-c) -o run_arrays
//   run     ./run_arrays apps/graft/demo/model.onnx
//   prints  input: float32 [N,3,64,64]
//   prints  scores of 2 pictures: 2 x 8
//   prints  input.shape: input: its shape is [2,3,64,63], the model asks for [?,3,64,64]
#include <graft.h>

#include <stdio.h>

static float pictures[2 * 3 * 64 * 64];

static int failed(graft_error* error) {
    fprintf(stderr, "%s\n", graft_error_message(error));
    graft_error_free(error);
    return 1;
}

static void print_value(const graft_value* value) {
    printf("%s: %s [", graft_value_name(value), graft_dtype_name(graft_value_dtype(value)));
    for (int axis = 0; axis < graft_value_rank(value); ++axis) {
        const char* comma = axis ? "," : "";
        if (graft_value_extent(value, axis) < 0)
            printf("%s%s", comma, graft_value_dimension(value, axis));
        else
            printf("%s%ld", comma, (long)graft_value_extent(value, axis));
    }
    printf("]\n");
}

int main(int count, char** arguments) {
    if (count < 2) return fprintf(stderr, "usage: %s MODEL\n", arguments[0]), 2;
    graft_error* error = NULL;
    graft_model* model = graft_model_load(arguments[1], NULL, &error);
    if (!model) return failed(error);
    print_value(graft_model_input(model, 0));

    graft_session* session = graft_session_new(model, NULL, &error);
    if (!session) return failed(error);
    int64_t shape[] = {2, 3, 64, 64};
    if (graft_session_set_input(session, 0, GRAFT_FLOAT32, shape, 4, pictures, sizeof pictures, &error) != GRAFT_OK) return failed(error);
    if (graft_session_run(session, &error) != GRAFT_OK) return failed(error);
    const graft_tensor* scores = graft_session_output(session, 0);
    printf("scores of 2 pictures: %ld x %ld\n", (long)graft_tensor_shape(scores)[0], (long)graft_tensor_shape(scores)[1]);

    shape[3] = 63;
    if (graft_session_set_input(session, 0, GRAFT_FLOAT32, shape, 4, pictures, 2 * 3 * 64 * 63 * sizeof(float), &error) != GRAFT_OK) {
        printf("%s\n", graft_error_message(error));
        graft_error_free(error);
    }
    graft_session_free(session);
    graft_model_free(model);
    return 0;
}
