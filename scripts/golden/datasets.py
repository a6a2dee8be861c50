"""Records how others read datasets, for tests/data: python scripts/golden/datasets.py (needs torchvision; class weights scikit-learn)."""
import base64, csv, gzip, io, os, struct, tempfile, zlib
from pathlib import Path
import numpy as np
import sklearn, torchvision
from sklearn.utils.class_weight import compute_class_weight
from torchvision.datasets import ImageFolder
from torchvision.datasets.mnist import read_image_file, read_label_file

HERE = Path(__file__).resolve().parents[2] / "tests" / "data"
TREE = ["b/2.png", "b/10.png", "b/deep/1.png", "b/deep/er/0.png", "b/deep-er/1.png", "b/Z.png", "b/a.PNG", "B/1.png", "10/x.png", "2/x.png",
        "\u00e9t\u00e9/1.png", "zebra/1.png", "a b/1.png", "a.b/1.jpeg", "a/1.ppm"]
CSV = ('\ufeffpath,label,note,split\r\nplain.png,cat,,val\r\n"quoted.png","a, b","",train\r\n"say ""cheese"".png",dog,"two\nlines",train\n'
       '\r\n\u00e9t\u00e9.png, cat ,\u00fc,\r\nlast.png,cat,,train')


def text(s):
    return '"' + "".join(chr(b) if 32 <= b < 127 and b not in b'"\\?' else f"\\{b:03o}" for b in s.encode()) + '"'


def gz(data, extra=b"", name=b"", comment=b"", header_crc=False):
    flags = 4 * bool(extra) + 8 * bool(name) + 16 * bool(comment) + 2 * header_crc
    head = struct.pack("<4BI2B", 31, 139, 8, flags, 0, 0, 255)
    head += struct.pack("<H", len(extra)) + extra if extra else b""
    head += name + b"\0" if name else b""
    head += comment + b"\0" if comment else b""
    head += struct.pack("<H", zlib.crc32(head) & 0xFFFF) if header_crc else b""
    body = zlib.compressobj(9, wbits=-15)
    packed = head + body.compress(data) + body.flush() + struct.pack("<2I", zlib.crc32(data), len(data) & 0xFFFFFFFF)
    assert gzip.decompress(packed) == data
    return packed


def main():
    out = ["// Made by scripts/golden/datasets.py: how torchvision, Python's csv and gzip, and scikit-learn read what the tests make.",
           f"// torchvision {torchvision.__version__}, scikit-learn {sklearn.__version__}.", "#pragma once", ""]
    with tempfile.TemporaryDirectory() as t:
        for f in TREE:
            Path(t, f).parent.mkdir(parents=True, exist_ok=True)
            Path(t, f).write_bytes(b"")
        folder = ImageFolder(t, loader=lambda p: None)
        out += ["// Files of an image folder, and what ImageFolder makes of them.",
                "inline constexpr const char* golden_tree[] = {" + ", ".join(map(text, TREE)) + "};",
                "inline constexpr const char* golden_classes[] = {" + ", ".join(map(text, folder.classes)) + "};",
                "struct golden_sample {", "    const char* path;", "    int label;", "};",
                "inline constexpr golden_sample golden_samples[] = {"]
        out += [f"    {{{text(os.path.relpath(p, t))}, {c}}}," for p, c in folder.samples] + ["};", ""]
    rows = [r for r in csv.reader(io.StringIO(CSV.removeprefix("\ufeff"), newline="")) if r]
    out += ["// A CSV text, and the fields that Python's csv finds in it, row by row.", f"inline constexpr char golden_csv[] = {text(CSV)};",
            "inline constexpr const char* golden_csv_rows[][4] = {"]
    out += ["    {" + ", ".join(map(text, r)) + "}," for r in rows] + ["};", ""]
    images = np.random.default_rng(1).integers(0, 256, (5, 3, 4), "u1")
    labels = np.array([2, 0, 1, 1, 0], "u1")
    pictures, names = struct.pack(">4I", 0x803, 5, 3, 4) + images.tobytes(), struct.pack(">2I", 0x801, 5) + labels.tobytes()
    with tempfile.TemporaryDirectory() as t:
        Path(t, "i").write_bytes(pictures)
        Path(t, "l").write_bytes(names)
        assert (read_image_file(t + "/i").numpy() == images).all() and (read_label_file(t + "/l").numpy() == labels).all()
    packed = gz(pictures, b"xy\2\0zz", b"train-images", b"a comment", True)
    out += ["// An IDX pair of five pictures of 3 rows and 4 columns, gzipped with every part that its header can have; torchvision's pixels.",
            f'inline constexpr char golden_idx_images[] = "{base64.b64encode(packed).decode()}";',
            f'inline constexpr char golden_idx_labels[] = "{base64.b64encode(gz(names, name=b"l")).decode()}";',
            "inline constexpr unsigned char golden_idx_pixels[] = {" + ", ".join(map(str, images.flatten())) + "};",
            "inline constexpr int golden_idx_classes[] = {" + ", ".join(map(str, labels)) + "};", ""]
    counts = [70, 7, 1, 210]
    y = np.repeat(np.arange(len(counts)), counts)
    weights = compute_class_weight("balanced", classes=np.arange(len(counts)), y=y)
    out += ["// Samples a class, and scikit-learn's balanced weights, divided by their mean.",
            "inline constexpr long long golden_counts[] = {" + ", ".join(map(str, counts)) + "};",
            "inline constexpr double golden_weights[] = {" + ", ".join(f"{w:.9f}" for w in weights / weights.mean()) + "};"]
    (HERE / "dataset_golden.hpp").write_text("\n".join(out) + "\n")


main()
