// What a file is, by its first bytes: said where something else was wanted, with what turns it into that.
#pragma once

#include "error.hpp"
#include "utf8.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

GRAFT_BEGIN_NAMESPACE
namespace detail {

inline bool is_png(const std::uint8_t* p, std::size_t n) noexcept { return n >= 8 && std::memcmp(p, "\x89PNG\r\n\x1a\n", 8) == 0; }
inline bool is_jpeg(const std::uint8_t* p, std::size_t n) noexcept { return n >= 3 && std::memcmp(p, "\xff\xd8\xff", 3) == 0; }
inline bool is_bmp(const std::uint8_t* p, std::size_t n) noexcept { return n >= 2 && p[0] == 'B' && p[1] == 'M'; }
inline bool is_pnm(const std::uint8_t* p, std::size_t n) noexcept {
    return n >= 3 && p[0] == 'P' && p[1] >= '1' && p[1] <= '6' && (p[2] == '#' || p[2] == ' ' || (p[2] >= '\t' && p[2] <= '\r'));
}
inline bool is_webp(const std::uint8_t* p, std::size_t n) noexcept { return n >= 12 && std::memcmp(p, "RIFF", 4) == 0 && std::memcmp(p + 8, "WEBP", 4) == 0; }

enum class file_family { unknown, picture, model, other_model, archive, other };

struct file_kind {
    const char* title = nullptr;    // behind "this is"; null where it is not known
    const char* convert = nullptr;  // of every picture that is not decoded, a command whose last word is one that is; of every other model, what makes ONNX of
                                    // it; of an archive, what unpacks it
    file_family family = file_family::unknown;
};

// Among the first `most` bytes.
inline bool has_bytes(const std::uint8_t* p, std::size_t n, const char* wanted, std::size_t most = 4096) noexcept {
    const std::size_t length = std::strlen(wanted), end = n < most ? n : most;
    for (std::size_t i = 0; i + length <= end; ++i)
        if (std::memcmp(p + i, wanted, length) == 0) return true;
    return false;
}

inline bool looks_like_svg(const std::string& head) noexcept {
    const bool markup = head.compare(0, 2, "<?") == 0 || head.compare(0, 4, "<!--") == 0 || head.compare(0, 5, "<!DOC") == 0;
    return head.compare(0, 4, "<svg") == 0 || (markup && head.find("<svg") != std::string::npos);
}

// The IR version, and behind it a field that a model begins with: producer, opset or graph.
inline bool is_onnx(const std::uint8_t* p, std::size_t n) noexcept {
    return n >= 3 && p[0] == 0x08 && p[1] >= 1 && p[1] <= 32 &&
           (p[2] == 0x12 || p[2] == 0x1a || p[2] == 0x22 || p[2] == 0x28 || p[2] == 0x32 || p[2] == 0x3a || p[2] == 0x42);
}

inline bool is_text(const std::uint8_t* p, std::size_t n) noexcept {
    const std::size_t end = n < 512 ? n : 512;
    for (std::size_t i = 0; i < end; ++i)
        if (p[i] == 127 || (p[i] < 32 && p[i] != '\n' && p[i] != '\r' && p[i] != '\t')) return false;
    // The last character may be cut off.
    const std::string_view head(reinterpret_cast<const char*>(p), end);
    for (std::size_t i = 0; i < head.size();) {
        const std::size_t length = utf8_length(head.substr(i));
        if (length == 0) return n > end && head.size() - i < 4;
        i += length;
    }
    return n > 0;
}

// ZIP files are PyTorch's since 1.6, Keras's since 3, and NumPy's too: told by the names inside.
inline file_kind kind_of_zip(const std::uint8_t* p, std::size_t n) {
    constexpr const char* torch = "load it in Python and write it with torch.onnx.export(net, (x,), \"model.onnx\")";
    if (has_bytes(p, n, "/data.pkl") || has_bytes(p, n, "/version") || has_bytes(p, n, "/constants.pkl") || has_bytes(p, n, "/.format_version"))
        return {"a PyTorch file", torch, file_family::other_model};
    if (has_bytes(p, n, "model.weights.h5", 1 << 16) || (has_bytes(p, n, "metadata.json") && has_bytes(p, n, "config.json", 1 << 16)))
        return {"a Keras model", "keras.saving.load_model(file).export(\"model.onnx\", format=\"onnx\")", file_family::other_model};
    if (has_bytes(p, n, ".npy")) return {"a file of NumPy arrays", nullptr, file_family::other};
    return {"a ZIP archive", "unzip a.zip -d folder", file_family::archive};
}

// The kind of a file by its first bytes; those of a kind that is decoded are told as pictures too.
inline GRAFT_COLD file_kind kind_of_file(const std::uint8_t* p, std::size_t n) {
    using family = file_family;
    if (is_png(p, n)) return {"a PNG picture", nullptr, family::picture};
    if (is_jpeg(p, n)) return {"a JPEG picture", nullptr, family::picture};
    if (is_webp(p, n)) return {"a WebP picture", "dwebp a.webp -o a.png", family::picture};
    if (is_onnx(p, n)) return {"an ONNX model", nullptr, family::model};
    if (n >= 4 && std::memcmp(p, "PK\3\4", 4) == 0) return kind_of_zip(p, n);
    constexpr const char* torch = "load it in Python and write it with torch.onnx.export(net, (x,), \"model.onnx\")";
    struct signature {
        const char* bytes;
        unsigned short length, at;
        file_kind kind;
    };
    static constexpr file_kind tiff = {"a TIFF picture", "magick 'a.tif[0]' a.png", family::picture},
                               heic = {"a HEIC picture", "heif-convert a.heic a.jpg", family::picture},
                               avif = {"an AVIF picture", "avifdec a.avif a.png", family::picture},
                               jpeg_2000 = {"a JPEG 2000 picture", "opj_decompress -i a.jp2 -o a.png", family::picture},
                               jpeg_xl = {"a JPEG XL picture", "djxl a.jxl a.png", family::picture},
                               pfm = {"a PFM picture", "magick a.pfm a.png", family::picture};
    static constexpr signature signatures[] = {
        {"GIF8", 4, 0, {"a GIF picture", "magick 'a.gif[0]' a.png", family::picture}},
        {"II*\0", 4, 0, tiff},
        {"MM\0*", 4, 0, tiff},
        {"II+\0", 4, 0, tiff},
        {"MM\0+", 4, 0, tiff},
        {"II\xbc", 3, 0, {"a JPEG XR picture", "magick a.jxr a.png", family::picture}},
        {"ftyphe", 6, 4, heic},
        {"ftypmif1", 8, 4, heic},
        {"ftypmsf1", 8, 4, heic},
        {"ftypavif", 8, 4, avif},
        {"ftypavis", 8, 4, avif},
        {"ftyp", 4, 4, {"a video or another ISO media file", "ffmpeg -i a.mp4 -frames:v 1 a.png", family::picture}},
        {"jP  \r\n\x87\n", 8, 4, jpeg_2000},
        {"\xff\x4f\xff\x51", 4, 0, jpeg_2000},
        {"JXL \r\n\x87\n", 8, 4, jpeg_xl},
        {"\xff\x0a", 2, 0, jpeg_xl},
        {"\0\0\1\0", 4, 0, {"an icon (ICO)", "magick 'a.ico[0]' a.png", family::picture}},
        {"\0\0\2\0", 4, 0, {"a cursor (CUR)", "magick 'a.cur[0]' a.png", family::picture}},
        {"8BPS", 4, 0, {"a Photoshop picture (PSD)", "magick 'a.psd[0]' a.png", family::picture}},
        {"qoif", 4, 0, {"a QOI picture", "magick a.qoi a.png", family::picture}},
        {"DDS ", 4, 0, {"a DDS picture", "magick a.dds a.png", family::picture}},
        {"\x76\x2f\x31\x01", 4, 0, {"an OpenEXR picture", "magick a.exr a.png", family::picture}},
        {"#?RADIANCE", 10, 0, {"a Radiance HDR picture", "magick a.hdr a.png", family::picture}},
        {"\x8aMNG", 4, 0, {"a MNG picture", "magick 'a.mng[0]' a.png", family::picture}},
        {"\x8bJNG", 4, 0, {"a JNG picture", "magick a.jng a.png", family::picture}},
        {"%PDF", 4, 0, {"a PDF document", "pdftoppm -png -singlefile a.pdf a", family::picture}},
        {"P7\n", 3, 0, {"a PAM picture", "magick a.pam a.png", family::picture}},
        {"Pf", 2, 0, pfm},
        {"PF", 2, 0, pfm},
        {"\x89HDF\r\n\x1a\n",
         8,
         0,
         {"an HDF5 file, such as Keras writes", "keras.models.load_model(file).export(\"model.onnx\", format=\"onnx\")", family::other_model}},
        {"TFL3", 4, 4, {"a TensorFlow Lite model", "python -m tf2onnx.convert --tflite a.tflite --output model.onnx", family::other_model}},
        {"ORTM", 4, 4, {"a model in ONNX Runtime's own format", "give the ONNX file that it was made of", family::other_model}},
        {"GGUF", 4, 0, {"a GGUF language model", nullptr, family::other}},
        {"7767517\n", 8, 0, {"an ncnn network", "give the ONNX file that it was made of", family::other_model}},
        {"\x80\2", 2, 0, {"a Python pickle, such as old PyTorch files are", torch, family::other_model}},
        {"\x80\3", 2, 0, {"a Python pickle", torch, family::other_model}},
        {"\x80\4", 2, 0, {"a Python pickle", torch, family::other_model}},
        {"\x80\5", 2, 0, {"a Python pickle", torch, family::other_model}},
        {"\x93NUMPY", 6, 0, {"a NumPy array", nullptr, family::other}},
        {"version https://git-lfs", 23, 0, {"a pointer of Git LFS and not the file itself, which `git lfs pull` gets", nullptr, family::other}},
        {"ustar", 5, 257, {"a tar archive", "tar xf a.tar -C folder", family::archive}},
        {"\x1f\x8b", 2, 0, {"a gzip archive", "tar xzf a.tar.gz -C folder", family::archive}},
        {"BZh", 3, 0, {"a bzip2 archive", "tar xjf a.tar.bz2 -C folder", family::archive}},
        {"\xfd"
         "7zXZ",
         5,
         0,
         {"an xz archive", "tar xJf a.tar.xz -C folder", family::archive}},
        {"\x28\xb5\x2f\xfd", 4, 0, {"a Zstandard archive", "tar --zstd -xf a.tar.zst -C folder", family::archive}},
        {"7z\xbc\xaf\x27\x1c", 6, 0, {"a 7z archive", "7z x a.7z -ofolder", family::archive}},
        {"Rar!", 4, 0, {"a RAR archive", "unrar x a.rar folder/", family::archive}},
    };
    for (const signature& s : signatures)
        if (n >= std::size_t(s.at) + s.length && std::memcmp(p + s.at, s.bytes, s.length) == 0) return s.kind;
    // A length of 64 bits, of which no real file fills the upper half, and a brace.
    if (n >= 9 && p[5] == 0 && p[6] == 0 && p[7] == 0 && p[8] == '{')
        return {"a safetensors file: weights without a network",
                "build the network in Python, load them, and write it with torch.onnx.export(net, (x,), \"model.onnx\")", family::other_model};
    std::size_t at = n >= 3 && p[0] == 0xef && p[1] == 0xbb && p[2] == 0xbf ? 3 : 0;
    while (at < n && (p[at] == ' ' || (p[at] >= '\t' && p[at] <= '\r'))) ++at;
    const std::string head(reinterpret_cast<const char*>(p) + at, n - at < 1024 ? n - at : 1024);
    if (looks_like_svg(head)) return {"an SVG drawing", "rsvg-convert a.svg -o a.png", family::picture};
    if (head.compare(0, 5, "<?xml") == 0 && head.find("<net ") != std::string::npos)
        return {"an OpenVINO network", "give the ONNX file that it was made of", family::other_model};
    if (head.compare(0, 5, "<?xml") == 0 || head.compare(0, 5, "<html") == 0 || head.compare(0, 9, "<!DOCTYPE") == 0 || head.compare(0, 9, "<!doctype") == 0)
        return {"XML or HTML (a download may have got a page about it)", nullptr, family::other};
    if (is_bmp(p, n) && n >= 26 && !is_text(p, n)) return {"a BMP picture", nullptr, family::picture};
    if (is_pnm(p, n)) return {"a PNM picture", nullptr, family::picture};
    if (is_text(p, n)) return {"text", nullptr, family::other};
    return {};
}

// "this is a JPEG picture, and WANTED is wanted", with what helps. `wanted` is such as "a model"; empty text where the kind is not known.
GRAFT_COLD inline std::string wrong_kind(const file_kind& kind, const char* wanted, const char* hint) {
    if (!kind.title) return "";
    std::string text = std::string("this is ") + kind.title;
    if (kind.family == file_family::archive) return text + "; unpack it: `" + kind.convert + "`";
    text += std::string(", and ") + wanted + " is wanted";
    return *hint ? text + ": " + hint : text;
}

}  // namespace detail
GRAFT_END_NAMESPACE
