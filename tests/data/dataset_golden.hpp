// Made by scripts/golden/datasets.py: how torchvision, Python's csv and gzip, and scikit-learn read what the tests make.
// torchvision 0.29.2+cu132, scikit-learn 1.9.1.
#pragma once

// Files of an image folder, and what ImageFolder makes of them.
inline constexpr const char* golden_tree[] = {"b/2.png",   "b/10.png",   "b/deep/1.png", "b/deep/er/0.png", "b/deep-er/1.png",         "b/Z.png",
                                              "b/a.PNG",   "B/1.png",    "10/x.png",     "2/x.png",         "\303\251t\303\251/1.png", "zebra/1.png",
                                              "a b/1.png", "a.b/1.jpeg", "a/1.ppm"};
inline constexpr const char* golden_classes[] = {"10", "2", "B", "a", "a b", "a.b", "b", "zebra", "\303\251t\303\251"};
struct golden_sample {
    const char* path;
    int label;
};
inline constexpr golden_sample golden_samples[] = {
    {"10/x.png", 0},     {"2/x.png", 1},         {"B/1.png", 2},         {"a/1.ppm", 3},     {"a b/1.png", 4},
    {"a.b/1.jpeg", 5},   {"b/10.png", 6},        {"b/2.png", 6},         {"b/Z.png", 6},     {"b/a.PNG", 6},
    {"b/deep/1.png", 6}, {"b/deep-er/1.png", 6}, {"b/deep/er/0.png", 6}, {"zebra/1.png", 7}, {"\303\251t\303\251/1.png", 8},
};

// A CSV text, and the fields that Python's csv finds in it, row by row.
inline constexpr char golden_csv[] =
    "\357\273\277path,label,note,split\015\012plain.png,cat,,val\015\012\042quoted.png\042,\042a, b\042,\042\042,train\015\012\042say "
    "\042\042cheese\042\042.png\042,dog,\042two\012lines\042,train\012\015\012\303\251t\303\251.png, cat ,\303\274,\015\012last.png,cat,,train";
inline constexpr const char* golden_csv_rows[][4] = {
    {"path", "label", "note", "split"},
    {"plain.png", "cat", "", "val"},
    {"quoted.png", "a, b", "", "train"},
    {"say \042cheese\042.png", "dog", "two\012lines", "train"},
    {"\303\251t\303\251.png", " cat ", "\303\274", ""},
    {"last.png", "cat", "", "train"},
};

// An IDX pair of five pictures of 3 rows and 4 columns, gzipped with every part that its header can have; torchvision's pixels.
inline constexpr char golden_idx_images[] = "H4sIHgAAAAAA/wYAeHkCAHp6dHJhaW4taW1hZ2VzAGEgY29tbWVudABaO2Ng4GBmYGBgBWIQzfL/"
                                            "iVLl571szWkrgg7unhb4+azEG45vS56rXMpfc2ndhlufVhadtV+gf8Xfo6Dinqt8fI5K7jtX48Anl09ZnXIEAAoQbIxMAAAA";
inline constexpr char golden_idx_labels[] = "H4sICAAAAAAA/2wAY2DgYGRgYGBlYmBkZAAAXFWhaA0AAAA=";
inline constexpr unsigned char golden_idx_pixels[] = {255, 228, 34,  121, 243, 189, 6,   131, 102, 168, 82,  193, 187, 150, 81,  243, 205, 24, 236, 8,
                                                      246, 164, 231, 36,  210, 111, 172, 210, 174, 176, 218, 242, 169, 114, 205, 63,  160, 47, 212, 79,
                                                      72,  112, 120, 222, 69,  31,  95,  108, 36,  109, 238, 69,  51,  81,  228, 211, 202, 58, 202, 65};
inline constexpr int golden_idx_classes[] = {2, 0, 1, 1, 0};

// Samples a class, and scikit-learn's balanced weights, divided by their mean.
inline constexpr long long golden_counts[] = {70, 7, 1, 210};
inline constexpr double golden_weights[] = {0.049180328, 0.491803279, 3.442622951, 0.016393443};
