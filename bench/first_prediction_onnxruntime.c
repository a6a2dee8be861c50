/* What bench/first_prediction.cpp does, by ONNX Runtime's C interface: loads a model with one image as input, runs it once on zeros, prints the
   likeliest class. That interface is a table of functions whose order never changes, so that no header of theirs is needed; they return
   null or what went wrong. bench/footprint measures it. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct api_base {
    const void* (*get)(uint32_t version);
    const char* (*version)(void);
};
extern const struct api_base* OrtGetApiBase(void);

/* Places in the table, as onnxruntime_c_api.h has them. */
enum {
    get_error_message = 2,
    create_env = 3,
    create_session = 7,
    run = 9,
    create_session_options = 10,
    get_input_name = 36,
    get_output_name = 37,
    create_tensor_with_data = 49,
    get_tensor_data = 51,
    create_cpu_memory_info = 69,
    get_allocator = 78
};

static void* const* api;
static void check(void* failed) {
    if (!failed) return;
    fprintf(stderr, "%s\n", ((const char* (*)(void*))api[get_error_message])(failed));
    exit(1);
}
#define CALL(which, ...) ((void* (*)(__VA_ARGS__))api[which])

int main(int count, char** arguments) {
    if (count < 2) return fprintf(stderr, "usage: %s MODEL [EXTENT]\n", arguments[0]), 2;
    const int64_t extent = count > 2 ? atoll(arguments[2]) : 224, shape[4] = {1, 3, extent, extent};
    const size_t bytes = (size_t)(3 * extent * extent) * sizeof(float);
    void *env, *options, *session, *allocator, *memory, *input, *output = NULL;
    char *input_name, *output_name;
    float *zeros = calloc(1, bytes), *scores;
    api = (void* const*)OrtGetApiBase()->get(15);
    check(CALL(create_env, int, const char*, void**)(3, "", &env));
    check(CALL(create_session_options, void**)(&options));
    check(CALL(create_session, void*, const char*, void*, void**)(env, arguments[1], options, &session));
    check(CALL(get_allocator, void**)(&allocator));
    check(CALL(get_input_name, void*, size_t, void*, char**)(session, 0, allocator, &input_name));
    check(CALL(get_output_name, void*, size_t, void*, char**)(session, 0, allocator, &output_name));
    check(CALL(create_cpu_memory_info, int, int, void**)(0, 0, &memory));
    check(CALL(create_tensor_with_data, void*, void*, size_t, const int64_t*, size_t, int, void**)(memory, zeros, bytes, shape, 4, 1, &input));
    const char *inputs[] = {input_name}, *outputs[] = {output_name};
    const void* values[] = {input};
    check(CALL(run, void*, void*, const char* const*, const void* const*, size_t, const char* const*, size_t, void**)(session, NULL, inputs, values, 1, outputs,
                                                                                                                      1, &output));
    check(CALL(get_tensor_data, void*, void**)(output, (void**)&scores));
    int best = 0;
    for (int i = 1; i < 1000; ++i)
        if (scores[i] > scores[best]) best = i;
    printf("class %d\n", best);
    return 0;
}
