// rows kernels: text, included once for each instruction set.

inline const rows_kernels* rows_table() {
    static constexpr rows_kernels all{};
    return &all;
}
