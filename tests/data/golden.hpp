// Made by scripts/golden/pillow.py: pictures drawn there, and what Pillow makes of them.
// Pillow 13.0.0. `file` and `pixels` are base64; `pixels` only where decoders may differ, else their CRC-32 counts.
#pragma once

#include <cstdint>

struct golden_picture {
    const char* name;
    int height, width;
    std::uint32_t crc;
    const char *file, *pixels;
};

inline constexpr golden_picture golden_pictures[] = {
    {"png colour 0 depth 1", 6, 7, 0xf0cbef10,
        "iVBORw0KGgoAAAANSUhEUgAAAAcAAAAGAQAAAAAndbnbAAAAFElEQVR42mNgZWRh6mZexPKCQQYACm4CRSA0JTYAAAAASUVORK5CYII=",
        nullptr},
    {"png colour 0 depth 2", 6, 7, 0x3b6e5ecc,
        "iVBORw0KGgoAAAANSUhEUgAAAAcAAAAGAgAAAABg1cMLAAAAGklEQVR42mNgZWHsXsT0Qoa5rodlxgkGrn0AKpMFd7S0SGwAAAAASUVORK5CYI"
        "I=",
        nullptr},
    {"png colour 0 depth 4", 6, 7, 0x78c280cb,
        "iVBORw0KGgoAAAANSUhEUgAAAAcAAAAGBAAAAADvlTarAAAAJ0lEQVR42mNgZelexPhCpq6HacYJrn3M34U2l7Kkfk3/zPBvZU49AKwhDO4hM1"
        "OYAAAAAElFTkSuQmCC",
        nullptr},
    {"png colour 0 depth 8", 6, 7, 0xf0e70e9d,
        "iVBORw0KGgoAAAANSUhEUgAAAAcAAAAGCAAAAAAqZduqAAAAO0lEQVR42gEwAM//AAUEi6LoHH4BjJjICr73EgKzdWX1Z/P+A6lsf0lsrCcEFt"
        "pPAXZKkgD2A8dNUvSL8RAU5kMp9dQAAAAASUVORK5CYII=",
        nullptr},
    {"png colour 0 depth 16", 6, 7, 0xf8e2e2d9,
        "iVBORw0KGgoAAAANSUhEUgAAAAcAAAAGEAAAAAB69QfpAAAAZUlEQVR42gFaAKX/AAUEi6LoHH6MmMgKvvcSAbN1ZfVn8/6pbH9JbKwnAhbaTw"
        "F2SpL2A8dNUvSLA6qonyntxHW5VLaTwnE0BHSrhd9k7L4kr1lby8stAB5n37mJP2Te0F/VsYfll+8tBonhn4oAAAAASUVORK5CYII=",
        nullptr},
    {"png colour 2 depth 8", 6, 7, 0x523072ea,
        "iVBORw0KGgoAAAANSUhEUgAAAAcAAAAGCAIAAACAbBMhAAAAj0lEQVR42gGEAHv/AAUEi6LoHH6MmMgKvvcSs3Vl9Wfz/gGpbH9JbKwnFtpPAX"
        "ZKkvYDx01S9IsCqqifKe3EdblUtpPCcTR0q4XfZOy+AySvWVvLyy0eZ9+5iT9k3tBf1bGH5QSh62LI0xienByU4xdGx7tgLkjhZMYAtxe81482"
        "52Y0rdL/AKgFWhuC6fxNGwZDL2fbbAgAAAAASUVORK5CYII=",
        nullptr},
    {"png colour 2 depth 16", 6, 7, 0x8b795f07,
        "iVBORw0KGgoAAAANSUhEUgAAAAcAAAAGEAIAAADQ/M9iAAABDUlEQVR42gECAf3+AAUEi6LoHH6MmMgKvvcSs3Vl9Wfz/qlsf0lsrCcW2k8Bdk"
        "qS9gPHTVL0iwGqqJ8p7cR1uVS2k8JxNHSrhd9k7L4kr1lby8stHmffuYk/ZN7QX9Wxh+UCoetiyNMYnpwclOMXRse7YC5I4WTGtxe8148252Y0"
        "rdL/AKgFWhuC6fxNA1bu5y+5mmtY+sWnc3p9X1rxYh2gq3LZJCGak6NzdZNcoh9PL5QAGd8/6gQXWo0BNiXFOANUl2GtuR4YmyBkE0XFRIZRab"
        "u+IKX9Fz1i3u5ql2o4NLYAu9pPa2T3Joj8uUtTr2PVhdWkvrbydtUBrQzdHIyS4S6YweYlLpB3VZmDsL+AhVufiXEAAAAASUVORK5CYII=",
        nullptr},
    {"png colour 4 depth 8", 6, 7, 0xf8e2e2d9,
        "iVBORw0KGgoAAAANSUhEUgAAAAcAAAAGCAQAAAClB0z9AAAAZUlEQVR42gFaAKX/AAUEi6LoHH6MmMgKvvcSAbN1ZfVn8/6pbH9JbKwnAhbaTw"
        "F2SpL2A8dNUvSLA6qonyntxHW5VLaTwnE0BHSrhd9k7L4kr1lby8stAB5n37mJP2Te0F/VsYfll+8tBonhn4oAAAAASUVORK5CYII=",
        nullptr},
    {"png colour 4 depth 16", 6, 7, 0x4bc472b1,
        "iVBORw0KGgoAAAANSUhEUgAAAAcAAAAGEAQAAAD1l5C+AAAAuUlEQVR42gGuAFH/AAUEi6LoHH6MmMgKvvcSs3Vl9Wfz/qlsf0lsrCcBFtpPAX"
        "ZKkvYDx01S9IuqqJ8p7cR1uVS2k8JxNAJ0q4XfZOy+JK9ZW8vLLR5n37mJP2Te0F/VsYflA6HrYsjTGJ6cHJTjF0bHu2AuSOFkxrcXvNePNucE"
        "ZjSt0v8AqAVaG4Lp/E1W7ucvuZprWPrFp3N6fQBfWvFiHaCrctkkIZqTo3N1k1yiH08vlAAZ3z/qPAtYDqFBaToAAAAASUVORK5CYII=",
        nullptr},
    {"png colour 6 depth 8", 6, 7, 0x34e277c8,
        "iVBORw0KGgoAAAANSUhEUgAAAAcAAAAGCAYAAAAPDoR2AAAAuUlEQVR42gGuAFH/AAUEi6LoHH6MmMgKvvcSs3Vl9Wfz/qlsf0lsrCcBFtpPAX"
        "ZKkvYDx01S9IuqqJ8p7cR1uVS2k8JxNAJ0q4XfZOy+JK9ZW8vLLR5n37mJP2Te0F/VsYflA6HrYsjTGJ6cHJTjF0bHu2AuSOFkxrcXvNePNucE"
        "ZjSt0v8AqAVaG4Lp/E1W7ucvuZprWPrFp3N6fQBfWvFiHaCrctkkIZqTo3N1k1yiH08vlAAZ3z/qPAtYDqFBaToAAAAASUVORK5CYII=",
        nullptr},
    {"png colour 6 depth 16", 6, 7, 0x3c593c00,
        "iVBORw0KGgoAAAANSUhEUgAAAAcAAAAGEAYAAABfnlg1AAABYUlEQVR42gFWAan+AAUEi6LoHH6MmMgKvvcSs3Vl9Wfz/qlsf0lsrCcW2k8Bdk"
        "qS9gPHTVL0i6qonyntxHW5VLaTwnE0AXSrhd9k7L4kr1lby8stHmffuYk/ZN7QX9Wxh+Wh62LI0xienByU4xdGx7tgLkjhZMa3F7zXjzbnAmY0"
        "rdL/AKgFWhuC6fxNVu7nL7maa1j6xadzen1fWvFiHaCrctkkIZqTo3N1k1yiH08vlAAZ3z/qAxdajQE2JcU4A1SXYa25HhibIGQTRcVEhlFpu7"
        "4gpf0XPWLe7mqXajg0trvaT2tk9yaI/LlLU69jBNWF1aS+tvJ21QGtDN0cjJLhLpjB5iUukHdVmYOxk0lY1Cy5JYVeUxEvNPJJReTN3U4p35vt"
        "GiciAGmESK5W2G1uXg51WlgzxtoteFa0LePAENQWeJIzvXPPapfQn/A4ag6U3Er+cQtnpUnTN4Pz0u6Jwl+pqsPV5NEAAAAASUVORK5CYII=",
        nullptr},
    {"png palette depth 1", 6, 7, 0x94423d10,
        "iVBORw0KGgoAAAANSUhEUgAAAAcAAAAGAQMAAAA1wBY1AAAABlBMVEUFBIui6BxiKBMjAAAAAnRSTlMAgJsrThgAAAAUSURBVHjaY2BlYGHoZl"
        "jE8IJBBgAKMgI73kycNAAAAABJRU5ErkJggg==",
        nullptr},
    {"png palette depth 2", 6, 7, 0x918af9c1,
        "iVBORw0KGgoAAAANSUhEUgAAAAcAAAAGAgMAAAByYGzlAAAADFBMVEUFBIui6Bx+jJjICr5NL+pmAAAAAnRSTlMAgJsrThgAAAAaSURBVHjaY2"
        "BlYehexPBChqGuh2HGCQaufQAqOQVtRe707gAAAABJRU5ErkJggg==",
        nullptr},
    {"png palette depth 4", 6, 7, 0xd267f07c,
        "iVBORw0KGgoAAAANSUhEUgAAAAcAAAAGBAMAAAD9IJlFAAAAMFBMVEUFBIui6Bx+jJjICr73ErN1ZfVn8/6pbH9JbKwnFtpPAXZKkvYDx01S9I"
        "uqqJ8p7cQMfn5jAAAAAnRSTlMAgJsrThgAAAAnSURBVHjaY2Bl6V7E8EKmrodhxgmufQzfhTaXMqR+Tf/M8G9lTj0Aq4sM5DBnDBsAAAAASUVO"
        "RK5CYII=",
        nullptr},
    {"png palette depth 8", 6, 7, 0x8fe0cf07,
        "iVBORw0KGgoAAAANSUhEUgAAAAcAAAAGCAMAAAA40HREAAABLFBMVEUFBIui6Bx+jJjICr73ErN1ZfVn8/6pbH9JbKwnFtpPAXZKkvYDx01S9I"
        "uqqJ8p7cR1uVS2k8JxNHSrhd9k7L4kr1lby8stHmffuYk/ZN7QX9Wxh+Wh62LI0xienByU4xdGx7tgLkjhZMa3F7zXjzbnZjSt0v8AqAVaG4Lp"
        "/E1W7ucvuZprWPrFp3N6fV9a8WIdoKty2SQhmpOjc3WTXKIfTy+UABnfP+oXWo0BNiXFOANUl2GtuR4YmyBkE0XFRIZRabu+IKX9Fz1i3u5ql2"
        "o4NLa72k9rZPcmiPy5S1OvY9WF1aS+tvJ21QGtDN0cjJLhLpjB5iUukHdVmYOxk0lY1Cy5JYVeUxEvNPJJReTN3U4p35vtGiciaYRIrlbYbW5e"
        "DnVaWDPG2i14VrRsq6k3AAAAAnRSTlMAgJsrThgAAAA7SURBVHjaATAAz/8ABQSLougcfgCMmMgKvvcSALN1ZfVn8/4AqWx/SWysJwAW2k8Bdk"
        "qSAPYDx01S9IvwIBTcjnnV5AAAAABJRU5ErkJggg==",
        nullptr},
    {"png exif 1", 2, 3, 0x320cd97f,
        "iVBORw0KGgoAAAANSUhEUgAAAAMAAAACCAIAAAASFvFNAAAAGmVYSWZJSSoACAAAAAEAEgEDAAEAAAABAAAAAAAAAL2NGDAAAAAdSURBVHjaY2"
        "Bl6V70QqauZwbjCa5934U2l6Z+BQBPVgj5yTuoqwAAAABJRU5ErkJggg==",
        nullptr},
    {"png exif 2", 2, 3, 0xcbbd8e7a,
        "iVBORw0KGgoAAAANSUhEUgAAAAMAAAACCAIAAAASFvFNAAAAGmVYSWZJSSoACAAAAAEAEgEDAAEAAAACAAAAAAAAADMCH9MAAAAdSURBVHjaY2"
        "Bl6V70QqauZwbjCa5934U2l6Z+BQBPVgj5yTuoqwAAAABJRU5ErkJggg==",
        nullptr},
    {"png exif 3", 2, 3, 0x3fb9f6ee,
        "iVBORw0KGgoAAAANSUhEUgAAAAMAAAACCAIAAAASFvFNAAAAGmVYSWZJSSoACAAAAAEAEgEDAAEAAAADAAAAAAAAAP+oH00AAAAdSURBVHjaY2"
        "Bl6V70QqauZwbjCa5934U2l6Z+BQBPVgj5yTuoqwAAAABJRU5ErkJggg==",
        nullptr},
    {"png exif 4", 2, 3, 0x7e2dd7eb,
        "iVBORw0KGgoAAAANSUhEUgAAAAMAAAACCAIAAAASFvFNAAAAGmVYSWZJSSoACAAAAAEAEgEDAAEAAAAEAAAAAAAAAPVtFlQAAAAdSURBVHjaY2"
        "Bl6V70QqauZwbjCa5934U2l6Z+BQBPVgj5yTuoqwAAAABJRU5ErkJggg==",
        nullptr},
    {"png exif 5", 3, 2, 0x68663788,
        "iVBORw0KGgoAAAANSUhEUgAAAAMAAAACCAIAAAASFvFNAAAAGmVYSWZJSSoACAAAAAEAEgEDAAEAAAAFAAAAAAAAADnHFsoAAAAdSURBVHjaY2"
        "Bl6V70QqauZwbjCa5934U2l6Z+BQBPVgj5yTuoqwAAAABJRU5ErkJggg==",
        nullptr},
    {"png exif 6", 3, 2, 0x0dc63c77,
        "iVBORw0KGgoAAAANSUhEUgAAAAMAAAACCAIAAAASFvFNAAAAGmVYSWZJSSoACAAAAAEAEgEDAAEAAAAGAAAAAAAAALdIESkAAAAdSURBVHjaY2"
        "Bl6V70QqauZwbjCa5934U2l6Z+BQBPVgj5yTuoqwAAAABJRU5ErkJggg==",
        nullptr},
    {"png exif 7", 3, 2, 0x970408b0,
        "iVBORw0KGgoAAAANSUhEUgAAAAMAAAACCAIAAAASFvFNAAAAGmVYSWZJSSoACAAAAAEAEgEDAAEAAAAHAAAAAAAAAHviEbcAAAAdSURBVHjaY2"
        "Bl6V70QqauZwbjCa5934U2l6Z+BQBPVgj5yTuoqwAAAABJRU5ErkJggg==",
        nullptr},
    {"png exif 8", 3, 2, 0xb35227b1,
        "iVBORw0KGgoAAAANSUhEUgAAAAMAAAACCAIAAAASFvFNAAAAGmVYSWZJSSoACAAAAAEAEgEDAAEAAAAIAAAAAAAAAKLCAxsAAAAdSURBVHjaY2"
        "Bl6V70QqauZwbjCa5934U2l6Z+BQBPVgj5yTuoqwAAAABJRU5ErkJggg==",
        nullptr},
    {"png split into many chunks", 6, 7, 0x523072ea,
        "iVBORw0KGgoAAAANSUhEUgAAAAcAAAAGCAIAAACAbBMhAAAABUlEQVR42gGEAJLqnEIAAAAFSURBVHv/AAUEZpG+ugAAAAVJREFUi6LoHH6b44"
        "m6AAAABUlEQVSMmMgKvgnkfOgAAAAFSURBVPcSs3Vl5AASvQAAAAVJREFU9Wfz/gEgE3hyAAAABUlEQVSpbH9JbHpZGscAAAAFSURBVKwnFtpP"
        "QaESjwAAAAVJREFUAXZKkvZVHDieAAAABUlEQVQDx01S9Kqp4uYAAAAFSURBVIsCqqif8jJwQwAAAAVJREFUKe3EdbnSGzVeAAAABUlEQVRUtp"
        "PCcZid00sAAAAFSURBVDR0q4XfecVhjgAAAAVJREFUZOy+AyRkeRLMAAAABUlEQVSvWVvLy0yvxUoAAAAFSURBVC0eZ9+5PJ6djQAAAAVJREFU"
        "iT9k3tCOhDpkAAAABUlEQVRf1bGH5Yd7xCQAAAAFSURBVASh62LIKxj9jwAAAAVJREFU0xienBwpDC+TAAAABUlEQVSU4xdGxxaKPKoAAAAFSU"
        "RBVLtgLkjhzcPrxgAAAAVJREFUZMYAtxdbT4QmAAAABUlEQVS81482538jh+8AAAAFSURBVGY0rdL/ahsy8QAAAAVJREFUAKgFWhsIqdb6AAAA"
        "BUlEQVSC6fxNG1+xxpkAAAADSURBVAZDL43CE48AAAAASUVORK5CYII=",
        nullptr},
    {"png interlaced, gray, 1 bit, 11x9", 9, 11, 0x0d1ca2de,
        "iVBORw0KGgoAAAANSUhEUgAAAAsAAAAJAQAAAAG7GNsWAAAAJ0lEQVR42mNkZWJhBGMQydzNCOUzd7MsYnjByMrC1L2I+YUMS10PAEXdBjs3Zt"
        "8aAAAAAElFTkSuQmCC",
        nullptr},
    {"png interlaced, gray, 1 bit, 3x1", 1, 3, 0xe60914ae,
        "iVBORw0KGgoAAAANSUhEUgAAAAMAAAABAQAAAAFEnBmPAAAADElEQVR42mNkZQRCAAA/ABM7CAw5AAAAAElFTkSuQmCC",
        nullptr},
    {"png interlaced, rgb, 11x9", 9, 11, 0x86ab6031,
        "iVBORw0KGgoAAAANSUhEUgAAAAsAAAAJCAIAAAEcAXHsAAAAyUlEQVR42mNkZele9EKGqa5nxgmufYxAHhOQywgRBQoiWExA+e9Cm0tTvzKnf/"
        "63MqfeM2cNQhYuyQSXVBe75c9Y5jXpG7oqJqAyZFXMEGXMx32DvnSvWjGfRfPtkdKdIdsmHyo0KVndep8h5c0+lfWR0adP68ql39/ZicVWNEuZ"
        "kI1DMw1iGDPcNPuUexfir25sf7rwddKJyxLz5shMeSzudnw3S4Kex8OUY9vF91zvN3ueZrL20n+GFaxR0k0v//iGvXuuv3MWAFK8mgjm4qBsAA"
        "AAAElFTkSuQmCC",
        nullptr},
    {"png interlaced, rgb, 3x1", 1, 3, 0x251dba1d,
        "iVBORw0KGgoAAAANSUhEUgAAAAMAAAABCAIAAAHjhbN1AAAADklEQVR42mNkZelmhGIACPoBwAtCnaAAAAAASUVORK5CYII=",
        nullptr},
    {"png interlaced, rgb and alpha, 16 bits, 11x9", 9, 11, 0x2ef15c02,
        "iVBORw0KGgoAAAANSUhEUgAAAAsAAAAJEAYAAAHD8zr4AAABtklEQVR42mNkZele9EKmrmfGCa5934U2lzKlfk3//G9lTr1nzhp1sVv+jIwwFU"
        "wwJYzoemBacEowwQwr85r0jfm4b9CX7lUr5mu+PcJcujNk2+RDhSYlq1vvp7zZp7I+Mvr0aV25dJxG4TKJCZdJ93d22qfcuxB/dWP704Wvk05c"
        "lpg3R2bKY3GibWCCWUHIBmZ0K9yO707Q83iYcmy7+J7r/WbP00zWXvrPsIKVJUq66eUf37B3z/V3zsqO+HV0eXFVbXzUxyTZBauLbqoozpq8uL"
        "h0cswieQZ//SkMkvftX4lH9TKaqR61YA6Znrh2p5zEbIUUYdejLm2Bmbv3KSz9K05ycBEbWkyE/EKsVzB8gssrtkn33mVNz7Iw2bb7ln92yne1"
        "jj87vYPXJ19tvbpk37ZPZVcZ1/LclemZ9FBvxsFnqnoTykNnNm+c7BlxRWenamtcsCCLvsknT9cnZ+/6ad6f/VZKXSmzxWNd2I3cvDi+0qgI42"
        "O3dCvCtug+PiBwRaxikvHe4vNZ0y/M/2CRxTfljte/Qu70pZ6XzZs/X3rX+TC7rvj2iaVzq6csv8XW08gJAFpbk9uvrlXrAAAAAElFTkSuQmCC",
        nullptr},
    {"png interlaced, rgb and alpha, 16 bits, 3x1", 1, 3, 0x67ddb0db,
        "iVBORw0KGgoAAAANSUhEUgAAAAMAAAABEAYAAAE8d/hhAAAAFElEQVR42mNkZele9EKmrocRgwEAfQEJ0DeqCdsAAAAASUVORK5CYII=",
        nullptr},
    {"png animated", 5, 4, 0x4ed01a31,
        "iVBORw0KGgoAAAANSUhEUgAAAAQAAAAFCAIAAADtz9qMAAAACGFjVEwAAAACAAAAAPONk3AAAAAaZmNUTAAAAAAAAAAEAAAABQAAAAAAAAAAAA"
        "AAAQAA37weWAAAAExJREFUeJwBQQC+/wAFBIui6Bx+jJjICr4E8g4ofn3Z8o4J4eCBAElsrCcW2k8BdkqS9gADx01S9IuqqJ8p7cQEcvIHQZ83"
        "u6Gygt1AsV0eLr0imCcAAAAaZmNUTAAAAAEAAAAEAAAABQAAAAAAAAAAAAAAAQAARM/0jAAAAFBmZEFUAAAAAnicAUEAvv8A+vt0XRfjgXNnN/"
        "VBBA7y2IKDJw5y9x8gfwC2k1PY6SWw/om1bQkA/DiyrQt0VVdg1hI7BI4O+b9hyUVfTn4jwOpZHcBV660VAAAAAElFTkSuQmCC",
        nullptr},
    {"png animated, its default image no frame", 5, 4, 0x4ed01a31,
        "iVBORw0KGgoAAAANSUhEUgAAAAQAAAAFCAIAAADtz9qMAAAACGFjVEwAAAABAAAAALQt6aAAAABMSURBVHicAUEAvv8ABQSLougcfoyYyAq+BP"
        "IOKH592fKOCeHggQBJbKwnFtpPAXZKkvYAA8dNUvSLqqifKe3EBHLyB0GfN7uhsoLdQLFdHi69IpgnAAAAGmZjVEwAAAAAAAAABAAAAAUAAAAA"
        "AAAAAAAAAAEAAN+8HlgAAABQZmRBVAAAAAF4nAFBAL7/APr7dF0X44FzZzf1QQQO8tiCgycOcvcfIH8AtpNT2OklsP6JtW0JAPw4sq0LdFVXYN"
        "YSOwSODvm/YclFX05+I8DqWR3AzKtKegAAAABJRU5ErkJggg==",
        nullptr},
    {"bmp 1 bits", 3, 13, 0xfb9946cf,
        "Qk1KAAAAAAAAAD4AAAAoAAAADQAAAAMAAAABAAEAAAAAAAwAAAAAAAAAAAAAAAAAAAAAAAAABQSLougcfowFBIui6Bx+jJjICr4=",
        nullptr},
    {"bmp 4 bits", 3, 5, 0xcc80ccf3,
        "Qk2CAAAAAAAAAHYAAAAoAAAABQAAAAMAAAABAAQAAAAAAAwAAAAAAAAAAAAAAAAAAAAAAAAABQSLougcfoyYyAq+9xKzdWX1Z/P+qWx/SWysJx"
        "baTwF2SpL2A8dNUvSLqqifKe3EdblUtpPCcTR0q4XfZOy+JAUEi6LoHH6MmMgKvg==",
        nullptr},
    {"bmp 8 bits", 3, 5, 0xa64bc08c,
        "Qk1OBAAAAAAAADYEAAAoAAAABQAAAAMAAAABAAgAAAAAABgAAAAAAAAAAAAAAAAAAAAAAAAABQSLougcfoyYyAq+9xKzdWX1Z/P+qWx/SWysJx"
        "baTwF2SpL2A8dNUvSLqqifKe3EdblUtpPCcTR0q4XfZOy+JK9ZW8vLLR5n37mJP2Te0F/VsYfloetiyNMYnpwclOMXRse7YC5I4WTGtxe81482"
        "52Y0rdL/AKgFWhuC6fxNVu7nL7maa1j6xadzen1fWvFiHaCrctkkIZqTo3N1k1yiH08vlAAZ3z/qF1qNATYlxTgDVJdhrbkeGJsgZBNFxUSGUW"
        "m7viCl/Rc9Yt7uapdqODS2u9pPa2T3Joj8uUtTr2PVhdWkvrbydtUBrQzdHIyS4S6YweYlLpB3VZmDsZNJWNQsuSWFXlMRLzTySUXkzd1OKd+b"
        "7RonImmESK5W2G1uXg51WlgzxtoteFa0LePAENQWeJIzvXPPapfQn/A4ag6U3Er+cQtnpUnTN4Pz0u6J4Wt+c9vIpZ17lKfaBoyBCa5OrHFeAc"
        "UpjMunD8gs1AvzoD+xXTjIdzED+Q30dOmS9x1FtwBz5ASYbWvUszLhuaEyP2CDTlkrt/KmBOtQzEDMCfF3iwY7taBH/nKP5nodk6E0PG2OSWvL"
        "9EO070dJDqHUwf2Jn7aha22OsAgS9yWFcQmhjsP+zbwdFzLXQ3Jc/UX7OddrtBBVd/12o0KmIUgs3ZKu+VHMcwcdulDyTux5JRfAptcHLk6A4M"
        "+zxcbIwV0Ds+aBkMVnzweq28bX58VEwcd7mPkM2SiB7mWvizLplgJQp/F7/acXN4XL9fvXo3TcLTCkRJ4Okt4ntdkf3MtrlVazIEmXBQSLougc"
        "foyYyAq+9xKzdWX1Z/P+qWx/SWysJxbaTwF2SpL2A8dNUvSLqqifKe3EdblUtpPCcTR0q4XfZOy+JK9ZW8vLLR5n37mJP2Te0F/VsYfloetiyN"
        "MYnpwclOMXRse7YC5I4WTGtxe8148252Y0rdL/AKgFWhuC6fxNVu7nL7maa1j6xadzen1fWvFiHaCrctkkIZqTo3N1k1yiH08vlAAZ3z/qF1qN"
        "ATYlxTgDVJdhrbkeGJsgZBNFxUSGUWm7viCl/Rc9Yt7uapdqODS2u9pPa2T3Joj8uUtTr2PVhdWkvrbydtUBrQzdHIyS4S6YweYlLpB3VZmDsZ"
        "NJWNQsuSWFXlMRLzTySUXkzd1OKd+b7RonImmESK5W2G1uXg51WlgzxtoteFa0LePAENQWeJIzvXPPapfQn/A4ag6U3Er+cQtnpUnTN4Pz0u6J"
        "4Wt+c9vIpZ17lKfaBoyBCa5OrHFeAcUpjMunD8gs1AvzoD+xXTjIdzED+Q30dOmS9x1FtwBz5ASYbWvUszLhuaEyP2CDTlkrt/KmBOtQzEDMCf"
        "F3iwY7tQUEi6LoHH6MmMgKvvcSs3Vl9Wfz/qlsfw==",
        nullptr},
    {"bmp 16 bits", 3, 5, 0x6624b2c1,
        "Qk1aAAAAAAAAADYAAAAoAAAABQAAAAMAAAABABAAAAAAACQAAAAAAAAAAAAAAAAAAAAAAAAABQSLougcfoyYyAq+9xKzdWX1Z/P+qWx/SWysJx"
        "baTwF2SpL2",
        nullptr},
    {"bmp 24 bits", 3, 5, 0x70526a49,
        "Qk1mAAAAAAAAADYAAAAoAAAABQAAAAMAAAABABgAAAAAADAAAAAAAAAAAAAAAAAAAAAAAAAABQSLougcfoyYyAq+9xKzdWX1Z/P+qWx/SWysJx"
        "baTwF2SpL2A8dNUvSLqqifKe3E",
        nullptr},
    {"bmp 32 bits", 3, 5, 0x4b05616f,
        "Qk1yAAAAAAAAADYAAAAoAAAABQAAAAMAAAABACAAAAAAADwAAAAAAAAAAAAAAAAAAAAAAAAABQSLougcfoyYyAq+9xKzdWX1Z/P+qWx/SWysJx"
        "baTwF2SpL2A8dNUvSLqqifKe3EdblUtpPCcTR0q4Xf",
        nullptr},
    {"bmp top down", 3, 5, 0x1b9584fe,
        "Qk1mAAAAAAAAADYAAAAoAAAABQAAAP3///8BABgAAAAAADAAAAAAAAAAAAAAAAAAAAAAAAAABQSLougcfoyYyAq+9xKzdWX1Z/P+qWx/SWysJx"
        "baTwF2SpL2A8dNUvSLqqifKe3E",
        nullptr},
    {"bmp 565", 3, 5, 0xeb69188c,
        "Qk1mAAAAAAAAAEIAAAAoAAAABQAAAAMAAAABABAAAwAAACQAAAAAAAAAAAAAAAAAAAAAAAAAAPgAAOAHAAAfAAAABQSLougcfoyYyAq+9xKzdW"
        "X1Z/P+qWx/SWysJxbaTwF2SpL2",
        nullptr},
    {"bmp rle8", 2, 4, 0xc6b37380,
        "Qk1EBAAAAAAAADYEAAAoAAAABAAAAAIAAAABAAgAAQAAAA4AAAAAAAAAAAAAAAAAAAAAAAAABQSLougcfoyYyAq+9xKzdWX1Z/P+qWx/SWysJx"
        "baTwF2SpL2A8dNUvSLqqifKe3EdblUtpPCcTR0q4XfZOy+JK9ZW8vLLR5n37mJP2Te0F/VsYfloetiyNMYnpwclOMXRse7YC5I4WTGtxe81482"
        "52Y0rdL/AKgFWhuC6fxNVu7nL7maa1j6xadzen1fWvFiHaCrctkkIZqTo3N1k1yiH08vlAAZ3z/qF1qNATYlxTgDVJdhrbkeGJsgZBNFxUSGUW"
        "m7viCl/Rc9Yt7uapdqODS2u9pPa2T3Joj8uUtTr2PVhdWkvrbydtUBrQzdHIyS4S6YweYlLpB3VZmDsZNJWNQsuSWFXlMRLzTySUXkzd1OKd+b"
        "7RonImmESK5W2G1uXg51WlgzxtoteFa0LePAENQWeJIzvXPPapfQn/A4ag6U3Er+cQtnpUnTN4Pz0u6J4Wt+c9vIpZ17lKfaBoyBCa5OrHFeAc"
        "UpjMunD8gs1AvzoD+xXTjIdzED+Q30dOmS9x1FtwBz5ASYbWvUszLhuaEyP2CDTlkrt/KmBOtQzEDMCfF3iwY7taBH/nKP5nodk6E0PG2OSWvL"
        "9EO070dJDqHUwf2Jn7aha22OsAgS9yWFcQmhjsP+zbwdFzLXQ3Jc/UX7OddrtBBVd/12o0KmIUgs3ZKu+VHMcwcdulDyTux5JRfAptcHLk6A4M"
        "+zxcbIwV0Ds+aBkMVnzweq28bX58VEwcd7mPkM2SiB7mWvizLplgJQp/F7/acXN4XL9fvXo3TcLTCkRJ4Okt4ntdkf3MtrlVazIEmXBQSLougc"
        "foyYyAq+9xKzdWX1Z/P+qWx/SWysJxbaTwF2SpL2A8dNUvSLqqifKe3EdblUtpPCcTR0q4XfZOy+JK9ZW8vLLR5n37mJP2Te0F/VsYfloetiyN"
        "MYnpwclOMXRse7YC5I4WTGtxe8148252Y0rdL/AKgFWhuC6fxNVu7nL7maa1j6xadzen1fWvFiHaCrctkkIZqTo3N1k1yiH08vlAAZ3z/qF1qN"
        "ATYlxTgDVJdhrbkeGJsgZBNFxUSGUWm7viCl/Rc9Yt7uapdqODS2u9pPa2T3Joj8uUtTr2PVhdWkvrbydtUBrQzdHIyS4S6YweYlLpB3VZmDsZ"
        "NJWNQsuSWFXlMRLzTySUXkzd1OKd+b7RonImmESK5W2G1uXg51WlgzxtoteFa0LePAENQWeJIzvXPPapfQn/A4ag6U3Er+cQtnpUnTN4Pz0u6J"
        "4Wt+c9vIpZ17lKfaBoyBCa5OrHFeAcUpjMunD8gs1AvzoD+xXTjIdzED+Q30dOmS9x1FtwBz5ASYbWvUszLhuaEyP2CDTlkrt/KmBOtQzEDMCf"
        "F3iwY7tQMHAQkAAAAEAQIDBAAB",
        nullptr},
    {"bmp rle4", 2, 5, 0x5a2999c0,
        "Qk2CAAAAAAAAAHYAAAAoAAAABQAAAAIAAAABAAQAAgAAAAwAAAAAAAAAAAAAAAAAAAAAAAAABQSLougcfoyYyAq+9xKzdWX1Z/P+qWx/SWysJx"
        "baTwF2SpL2A8dNUvSLqqifKe3EdblUtpPCcTR0q4XfZOy+JAVxAAAABRI0UAAAAQ==",
        nullptr},
    {"pbm plain", 2, 5, 0x2072118f,
        "UDEKIyBjCjUgMgoxIDAgMSAwIDEKMDEwMTA=",
        nullptr},
    {"pbm", 2, 10, 0x7f704cf0,
        "UDQgMTAgMgoFBIui",
        nullptr},
    {"pgm plain", 2, 3, 0x26f27863,
        "UDIgMyAyIDEwMAowIDEgMiA1MCA5OSAxMDAK",
        nullptr},
    {"pgm", 2, 3, 0xe1333be1,
        "UDUgMyAyIDI1NQoFBIui6Bw=",
        nullptr},
    {"pgm of 16 bits", 2, 3, 0xa32178da,
        "UDUgMyAyIDY1NTM1CgUEi6LoHH6MmMgKvg==",
        nullptr},
    {"pgm of 10 bits", 1, 3, 0xd2ecaa66,
        "UDUgMyAxIDEwMDAKAAABLAPo",
        nullptr},
    {"ppm plain", 1, 2, 0x4de560b6,
        "UDMgMiAxIDcKMCAxIDIgMyAjIGEgY29tbWVudAogNCA3",
        nullptr},
    {"ppm", 2, 3, 0x903fda73,
        "UDYgMyAyIDI1NQoFBIui6Bx+jJjICr73ErN1ZfU=",
        nullptr},
    {"ppm of 16 bits", 1, 2, 0x1cb454d2,
        "UDYgMiAxIDY1NTM1CgUEi6LoHH6MmMgKvg==",
        nullptr},
    {"jpeg 4:2:0", 12, 17, 0xc59f5856,
        "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAYEBQYFBAYGBQYHBwYIChAKCgkJChQODwwQFxQYGBcUFhYaHSUfGhsjHBYWICwgIyYnKSopGR8tMC"
        "0oMCUoKSj/2wBDAQcHBwoIChMKChMoGhYaKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCj/wAARCAAM"
        "ABEDASIAAhEBAxEB/8QAHwAAAQUBAQEBAQEAAAAAAAAAAAECAwQFBgcICQoL/8QAtRAAAgEDAwIEAwUFBAQAAAF9AQIDAAQRBRIhMUEGE1FhBy"
        "JxFDKBkaEII0KxwRVS0fAkM2JyggkKFhcYGRolJicoKSo0NTY3ODk6Q0RFRkdISUpTVFVWV1hZWmNkZWZnaGlqc3R1dnd4eXqDhIWGh4iJipKT"
        "lJWWl5iZmqKjpKWmp6ipqrKztLW2t7i5usLDxMXGx8jJytLT1NXW19jZ2uHi4+Tl5ufo6erx8vP09fb3+Pn6/8QAHwEAAwEBAQEBAQEBAQAAAA"
        "AAAAECAwQFBgcICQoL/8QAtREAAgECBAQDBAcFBAQAAQJ3AAECAxEEBSExBhJBUQdhcRMiMoEIFEKRobHBCSMzUvAVYnLRChYkNOEl8RcYGRom"
        "JygpKjU2Nzg5OkNERUZHSElKU1RVVldYWVpjZGVmZ2hpanN0dXZ3eHl6goOEhYaHiImKkpOUlZaXmJmaoqOkpaanqKmqsrO0tba3uLm6wsPExc"
        "bHyMnK0tPU1dbX2Nna4uPk5ebn6Onq8vP09fb3+Pn6/9oADAMBAAIRAxEAPwCzp3j+X7J/qz09K53WPH8v2j/Vnr6V6Lp3hzTfsg/cdq53V/Dm"
        "m/aP9R3rzclhgvafwzTiCpl/1KH7pnKf8J/L/wA8z+VFdJ/wjmm/88KK+t5MF/z7Piva5f8A8+mf/9k=",
        "kdEin9crtdo1xto91dlG29pO1ddQw9dUq9dbjthfcNdiV9dqQ9VwM9J1LdR8L9eCOdeKlMYpossxts48x85E18xM3c1T1stXxspbrMxhkctkcc"
        "tpWcxvRMl2NMZ7LsiCMcqJOsyOkaYtn6w2s69Bxa9J1a5R2q5X061cw6xgqq1mjq1qb6xwVax1Qat7MaiALKmHLayPN62TjIAum4Y3r4lCwIlJ"
        "0IdS1YdXz4ZdvYVgpYZniIdraoZwUYZ2PYR8LIKBKIOIKYWQM4aUjVcxm1w5sGBFwWBNz19U1V9bzl1fvVxjpl5qiF5sal1xUl54PVt/LVqEJ1"
        "mKKVyRMV6XiDYrlTszrD4/vT5HyzxO0T1XyjtZuDtdoTxkhD1pZjxsTTxzODl5KTd+IjiEJDuLLjyUiSQolyowrS08vy1EzCtM0ixUyypWuSla"
        "oithhitmaCppTypwOSh2KiZ7IyeCJSqIMCuRiykqmS8zrzE9vzJFzzBO1DBTzi9YvC5cpDBhiC9lai5qUS5wOy14LCp9JiyEKC+KMDCQjUItm0"
        "g2sUxCwkxK0UpR1kpX0Ehcv0lhpklkiUppa0luUkl2PUd8L0WBKUaIK0mRM0uVj2Q3n2xBtHBNxXBT02xZ2Gxg0mtmxGxrqGxujGtybmx5VWx+"
        "QWuEMWeJK2mSLWyYNm6flJFEpJhOuZxaypxh2Jho3Zhu15dzyZh4rZh9kpeBc5iGWpiNRpaTNpSWMJWfMpimO5qsm6xQqbJZwLVl0bVs3rJx5L"
        "N537F/zrKDtbKJmLKNerGRYbGWS7CePK+iN7CrOLOxQbS3"},
    {"jpeg 4:4:4, progressive, exif 6", 17, 12, 0x1e065a68,
        "/9j/4AAQSkZJRgABAQAAAQABAAD/4QAiRXhpZgAATU0AKgAAAAgAAQESAAMAAAABAAYAAAAAAAD/2wBDAAMCAgMCAgMDAwMEAwMEBQgFBQQEBQ"
        "oHBwYIDAoMDAsKCwsNDhIQDQ4RDgsLEBYQERMUFRUVDA8XGBYUGBIUFRT/2wBDAQMEBAUEBQkFBQkUDQsNFBQUFBQUFBQUFBQUFBQUFBQUFBQU"
        "FBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBT/wgARCAAMABEDAREAAhEBAxEB/8QAFgABAQEAAAAAAAAAAAAAAAAABAYH/8QAFgEAAwAAAA"
        "AAAAAAAAAAAAAABQYH/9oADAMBAAIQAxAAAAFKe5TrvNjmQ+myukTrvNjmQ/8A/8QAHBAAAQUAAwAAAAAAAAAAAAAABAACBQYTEhUW/9oACAEB"
        "AAEFAh7O7Iuzu5+nch4kbIuKG06kZf/EABwRAAEFAQEBAAAAAAAAAAAAAAQAAgUTMVEUFf/aAAgBAwEBPwEWDbRql4Ntur4beoU8ijVLnkW6ve"
        "R1f//EAB4RAAEDBAMAAAAAAAAAAAAAAAACAwQFERIxFBVR/9oACAECAQE/AUUVORBoqbHSpES3ctkGW7bZy3fT/8QAFRABAQAAAAAAAAAAAAAA"
        "AAAAADL/2gAIAQEABj8ClKUIQ//EABUQAQEAAAAAAAAAAAAAAAAAABCB/9oACAEBAAE/IY59oNyP/9oADAMBAAIAAwAAABB5ET//xAAYEQADAQ"
        "EAAAAAAAAAAAAAAAAAEBGBYf/aAAgBAwEBPxDLFpFiy52r/8QAGBEAAwEBAAAAAAAAAAAAAAAAABARIWH/2gAIAQIBAT8Qg6SdOiNDRf/EACAQ"
        "AAECBQUAAAAAAAAAAAAAAAABESExUWHRgZGx4fD/2gAIAQEAAT8Qao9A9xzoXWw0ciYHy6vR7qmD/9k=",
        "g79NfJhEgW5Gf0VBfys7fCo4fTgzgFozfoYwfrIsfs8qftwmn79SmZdKn21Mm0VGnCpEmig/mzY8nlk8nIU5nLA1nM0znNovvcBZtphQvW1SuE"
        "VMuipNuClHuTZEu1hDuoVBurA9us47udk2zb9cxplVzG5VyUVQyipQyChKyTZIyllHyoZFybJCys89yds52L9j05hc121d1EVX1ilU0ylO1DdM"
        "11lL1oZH1bBF1s9B1ds9375t2Zdj3m1n2kRh3ilc2ydW3TZU3VhT3IVQ3LBN3M5J29pE1L5zzZlq021r0EVm0ilkzyhe0DZc01hb0oVZ0a9V0s"
        "5R0dpNwsB1upprwG9svUZmwCpnvilhvzdfwFldv4Zbv7FYv89VvtpRrb1+qZl4qmt2qkRzpypupSlopzdnp1lmp4ZjprJgqM9cp9pZj7+Bipt7"
        "jW16jEd2kClyjShsjjZpkVhpkIVnkLBkkM5hj9lcbr+HaZuCa2yAa0Z8bil5bChzbTZwcFhwb4VubrBpb85obtpjVr2OUZiIVWqHU0WDUSuATy"
        "p6UDd4U1p3UYZ0UbFxUc9uUdtrQL2TPZmMPmuMPUSIOyqGOSmBOjd+PVl+PIZ5O7F3O85zO9tvLb+YKJyTK22QKkeNLymLLCiGLTaDL1mDLoV/"
        "LbB8Ls54LdlzJr+gI5uZJG2WI0eTKCmTJiiNJzaLKVmKJ4WHJ7CEKM2AKNp8LL6nKJmfKmygKkaaJyuZJSmUJjeRKFmRJ4WNJrGKJ86GJ9uEO8"
        "CtMpikOW2mNUSfNimdNSmZNzeXN1mWNoWSNbGPN86LNduH"},
    {"jpeg gray", 12, 17, 0x909267a9,
        "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAYEBQYFBAYGBQYHBwYIChAKCgkJChQODwwQFxQYGBcUFhYaHSUfGhsjHBYWICwgIyYnKSopGR8tMC"
        "0oMCUoKSj/wAALCAAMABEBAREA/8QAHwAAAQUBAQEBAQEAAAAAAAAAAAECAwQFBgcICQoL/8QAtRAAAgEDAwIEAwUFBAQAAAF9AQIDAAQRBRIh"
        "MUEGE1FhByJxFDKBkaEII0KxwRVS0fAkM2JyggkKFhcYGRolJicoKSo0NTY3ODk6Q0RFRkdISUpTVFVWV1hZWmNkZWZnaGlqc3R1dnd4eXqDhI"
        "WGh4iJipKTlJWWl5iZmqKjpKWmp6ipqrKztLW2t7i5usLDxMXGx8jJytLT1NXW19jZ2uHi4+Tl5ufo6erx8vP09fb3+Pn6/9oACAEBAAA/ALOn"
        "eP5fsn+rPT0rndY8fy/aP9WevpVf/hP5f+eZ/KvTdO8Oab9kH7jtXO6v4c037R/qO9Qf8I5pv/PCv//Z",
        "qqqqs7OzvLy8wsLCx8fHysrKx8fHwsLCvLy8tLS0q6urpKSknp6emJiYmJiYm5ubn5+fpaWlra2ttra2vLy8wcHBxMTEwcHBvLy8tra2rq6upa"
        "Wln5+fmJiYkpKSkpKSlZWVmZmZkpKSm5ubpKSkqqqqr6+vsbGxr6+vqqqqpKSknJyck5OTjIyMhoaGgICAgICAg4ODh4eHenp6g4ODjIyMkpKS"
        "l5eXmZmZl5eXkpKSjIyMhISEe3t7dHR0bm5uaGhoaGhoa2trb29vY2Nja2trdXV1e3t7f39/goKCf39/enp6dXV1bGxsY2NjXV1dVlZWUVFRUF"
        "BQU1NTV1dXTU1NVVVVX19fZWVlaWlpbGxsaWlpZGRkX19fV1dXTk5OR0dHQEBAOzs7Ojo6PT09QkJCQ0NDS0tLVVVVW1tbX19fYmJiX19fWlpa"
        "VVVVTU1NREREPT09NjY2MTExMDAwMzMzODg4RkZGT09PWFhYXl5eY2NjZWVlY2NjXl5eWFhYUFBQR0dHQEBAOjo6NDQ0NDQ0Nzc3Ozs7VlZWX1"
        "9faWlpb29vc3NzdXV1c3Nzb29vaGhoYGBgV1dXUVFRSkpKRUVFRUVFSEhITExMbGxsdnZ2gICAhoaGiYmJi4uLiYmJhoaGfn5+dnZ2bm5uZ2dn"
        "YWFhW1tbW1tbXl5eY2NjiYmJk5OTnZ2do6OjpqamqKiopqamo6Ojm5ubk5OTi4uLhISEfn5+eHh4eHh4e3t7gICAnJycpaWlr6+vtbW1uLi4u7"
        "u7ubm5tbW1rq6upqamnZ2dlpaWkJCQi4uLi4uLjo6OkpKS"},
    {"jpeg cmyk, as Adobe writes it", 12, 17, 0xe7ada81c,
        "/9j/7gAOQWRvYmUAZAAAAAAA/9sAQwADAgIDAgIDAwMDBAMDBAUIBQUEBAUKBwcGCAwKDAwLCgsLDQ4SEA0OEQ4LCxAWEBETFBUVFQwPFxgWFB"
        "gSFBUU/8AAFAgADAARBEMRAE0RAFkRAEsRAP/EAB8AAAEFAQEBAQEBAAAAAAAAAAABAgMEBQYHCAkKC//EALUQAAIBAwMCBAMFBQQEAAABfQEC"
        "AwAEEQUSITFBBhNRYQcicRQygZGhCCNCscEVUtHwJDNicoIJChYXGBkaJSYnKCkqNDU2Nzg5OkNERUZHSElKU1RVVldYWVpjZGVmZ2hpanN0dX"
        "Z3eHl6g4SFhoeIiYqSk5SVlpeYmZqio6Slpqeoqaqys7S1tre4ubrCw8TFxsfIycrS09TV1tfY2drh4uPk5ebn6Onq8fLz9PX29/j5+v/aAA4E"
        "QwBNAFkASwAAPwD6g+En/JNl/wCuX9Kyv+HiWpf8+L/98180eCNE/wBX8tfqnX52/tZf8jpJ/wBdD/Oj/h4lqX/Pi/8A3zX0B4I0T/V/LRXllH"
        "/DxLUv+fF/++a9I/sT/Zor9ZfhJ/yTZf8Arl/SvbP+Ga/AX/QIH5j/AAr5t8EWkf7v5aK/O39rL/kdJP8Arof50f8ADNfgL/oED8x/hX0B4ItI"
        "/wB38tFeWUf8M1+Av+gQPzH+FekfZI/7tFf/2Q==",
        "gNoonNott9o0zNo719pA2NpG0dpNwdpSqtpYi9pdb9pkUtprOtpwLNp2Jtp9KdqCNtqIgM4rnM4wt843zM49185C2M5I0c5Pwc5Uqs5bi85gb8"
        "5nUs5tOs5yLM54Js5/Kc6ENs6LgLAunLAzt7A6zLBB17BG2LBM0bBTwbBYqrBei7Bjb7BqUrBxOrB2LLB8JrCDKbCINrCOgIYxnIY2t4Y9zIZD"
        "14ZJ2IZP0YZWwYZbqoZhi4Zmb4ZtUoZzOoZ5LIZ/JoaGKYaLNoaRgFs0nFs5t1tAzFtG11tL2FtR0VtYwVtdqltki1tpb1twUlt2Olt7LFuBJl"
        "uIKVuNNluUgDY3nDY8tzZDzDZJ1zZO2DZU0TZbwTZgqjZnizZsbzZzUjZ5OjZ+LDaEJjaLKTaQNjaXgCc6nCc/tydGzCdM1ydS2CdY0SdfwSdk"
        "qidqiydvbyd2Uid8OieCLCeIJiePKSeUNieagCs9nCtCtytJzCtP1ytU2Cta0SthwStmqittiytybyt5Uit/OiuELCuKJiuRKSuWNiudgERAnE"
        "RFt0RMzERS10RY2ERe0URlwURqqkRwi0R1b0R8UkSCOkSILESOJkSVKUSaNkSggG5DnG5It25PzG5V125a2G5h0W5owW5tqm5zi254b25/Um6F"
        "Om6KLG6RJm6YKW6dNm6jgJlGnJlMt5lTzJlZ15le2Jlk0ZlrwZlwqpl2i5l8b5mDUpmJOpmOLJmUJpmbKZmgNpmmgL5JnL5Ot75VzL5b175g2L"
        "5m0b5twb5yqr55i75+b76FUr6LOr6QLL6WJr6dKb6iNr6o"},
    {"jpeg cmyk without a marker", 12, 17, 0xe7ada81c,
        "/9j/2wBDAAMCAgMCAgMDAwMEAwMEBQgFBQQEBQoHBwYIDAoMDAsKCwsNDhIQDQ4RDgsLEBYQERMUFRUVDA8XGBYUGBIUFRT/wAAUCAAMABEEQx"
        "EATREAWREASxEA/8QAHwAAAQUBAQEBAQEAAAAAAAAAAAECAwQFBgcICQoL/8QAtRAAAgEDAwIEAwUFBAQAAAF9AQIDAAQRBRIhMUEGE1FhByJx"
        "FDKBkaEII0KxwRVS0fAkM2JyggkKFhcYGRolJicoKSo0NTY3ODk6Q0RFRkdISUpTVFVWV1hZWmNkZWZnaGlqc3R1dnd4eXqDhIWGh4iJipKTlJ"
        "WWl5iZmqKjpKWmp6ipqrKztLW2t7i5usLDxMXGx8jJytLT1NXW19jZ2uHi4+Tl5ufo6erx8vP09fb3+Pn6/9oADgRDAE0AWQBLAAA/APqD4Sf8"
        "k2X/AK5f0rK/4eJal/z4v/3zXzR4I0T/AFfy1+qdfnb+1l/yOkn/AF0P86P+HiWpf8+L/wDfNfQHgjRP9X8tFeWUf8PEtS/58X/75r0j+xP9mi"
        "v1l+En/JNl/wCuX9K9s/4Zr8Bf9AgfmP8ACvm3wRaR/u/lor87f2sv+R0k/wCuh/nR/wAM1+Av+gQPzH+FfQHgi0j/AHfy0V5ZR/wzX4C/6BA/"
        "Mf4V6R9kj/u0V//Z",
        "gNoonNott9o0zNo719pA2NpG0dpNwdpSqtpYi9pdb9pkUtprOtpwLNp2Jtp9KdqCNtqIgM4rnM4wt843zM49185C2M5I0c5Pwc5Uqs5bi85gb8"
        "5nUs5tOs5yLM54Js5/Kc6ENs6LgLAunLAzt7A6zLBB17BG2LBM0bBTwbBYqrBei7Bjb7BqUrBxOrB2LLB8JrCDKbCINrCOgIYxnIY2t4Y9zIZD"
        "14ZJ2IZP0YZWwYZbqoZhi4Zmb4ZtUoZzOoZ5LIZ/JoaGKYaLNoaRgFs0nFs5t1tAzFtG11tL2FtR0VtYwVtdqltki1tpb1twUlt2Olt7LFuBJl"
        "uIKVuNNluUgDY3nDY8tzZDzDZJ1zZO2DZU0TZbwTZgqjZnizZsbzZzUjZ5OjZ+LDaEJjaLKTaQNjaXgCc6nCc/tydGzCdM1ydS2CdY0SdfwSdk"
        "qidqiydvbyd2Uid8OieCLCeIJiePKSeUNieagCs9nCtCtytJzCtP1ytU2Cta0SthwStmqittiytybyt5Uit/OiuELCuKJiuRKSuWNiudgERAnE"
        "RFt0RMzERS10RY2ERe0URlwURqqkRwi0R1b0R8UkSCOkSILESOJkSVKUSaNkSggG5DnG5It25PzG5V125a2G5h0W5owW5tqm5zi254b25/Um6F"
        "Om6KLG6RJm6YKW6dNm6jgJlGnJlMt5lTzJlZ15le2Jlk0ZlrwZlwqpl2i5l8b5mDUpmJOpmOLJmUJpmbKZmgNpmmgL5JnL5Ot75VzL5b175g2L"
        "5m0b5twb5yqr55i75+b76FUr6LOr6QLL6WJr6dKb6iNr6o"},
    {"jpeg ycck", 12, 17, 0x1aeaa315,
        "/9j/7gAOQWRvYmUAZAAAAAAC/9sAQwADAgIDAgIDAwMDBAMDBAUIBQUEBAUKBwcGCAwKDAwLCgsLDQ4SEA0OEQ4LCxAWEBETFBUVFQwPFxgWFB"
        "gSFBUU/8AAFAgADAARBEMRAE0RAFkRAEsRAP/EAB8AAAEFAQEBAQEBAAAAAAAAAAABAgMEBQYHCAkKC//EALUQAAIBAwMCBAMFBQQEAAABfQEC"
        "AwAEEQUSITFBBhNRYQcicRQygZGhCCNCscEVUtHwJDNicoIJChYXGBkaJSYnKCkqNDU2Nzg5OkNERUZHSElKU1RVVldYWVpjZGVmZ2hpanN0dX"
        "Z3eHl6g4SFhoeIiYqSk5SVlpeYmZqio6Slpqeoqaqys7S1tre4ubrCw8TFxsfIycrS09TV1tfY2drh4uPk5ebn6Onq8fLz9PX29/j5+v/aAA4E"
        "QwBNAFkASwAAPwD6g+En/JNl/wCuX9Kyv+HiWpf8+L/98180eCNE/wBX8tfqnX52/tZf8jpJ/wBdD/Oj/h4lqX/Pi/8A3zX0B4I0T/V/LRXllH"
        "/DxLUv+fF/++a9I/sT/Zor9ZfhJ/yTZf8Arl/SvbP+Ga/AX/QIH5j/AAr5t8EWkf7v5aK/O39rL/kdJP8Arof50f8ADNfgL/oED8x/hX0B4ItI"
        "/wB38tFeWUf8M1+Av+gQPzH+FekfZI/7tFf/2Q==",
        "+l8A10cAszEAlCEAghkAeB0AdikAfjwAjVcApXoAt5sAyr0O29km4es03fY60/Y3vu4q9l0A00UAri8AkR4AfxcAdhoAcyYAfDkAiVUAoXgAs5"
        "kGyLoj2dY73uhJ2vNP0PRMuuw/8lUqzz0OqicAixcAeQ8AcBIAbR4AdjIAhU0AnXAfr5E7wrNY085w2eF+1eyEy+yBteR07kl0yzBYpho9iQoo"
        "dQMdbAYcaRIjciYzgEFKmGNpq4SFv6aiz8K61NTI0d/Ox+DLsde+6jzBxySlog6KhAB1cgBqaQBpZgVwbxiAfDSXlFe2pnjSu5nvzLX/0sf/zt"
        "L/xNP/rcv/5TH/whnmngPLgAC2bgCrZQCqYgCxaw7BeCrYkEz3om3/t4//yKr/zbz/ysf/wMj/qcD/4S7/vhb/mQDmfADRaADGXwDFXADMZQvc"
        "dCfzjEn/nmr/s4z/wqj/yLr/xMX/usb/pb3/3TL/uhn6lQPfeADKZgC/XAC+WQDFYg7VcCrsiE3/mm7/ro//v6v/xb3/wcj/t8j/oMD/2T3pti"
        "TNkQ6ycwCdYACSVwCRVAaYXRqoazW/g1felnj6qpr/urb/v8j/vNP/stT/nMv/1U2fsjWDjR9obw5TXQdIUgtHUBdOWSpeZ0Z1f2iUkYmwpqrN"
        "t8blu9nzt+T5reX2mNzp0F5TrEY3hzAcaiAHWBgAThwASygCVDsSY1YpenpIjJtkoLyBsdiZt+qns/WtqfWqlO2dzG0RqVUAhD8AZy4AVSYASy"
        "oASTYAUkkAX2UAd4gGiakinso/r+ZXtPhlsP9rpv9okftb"},
};

struct golden_resize {
    int height, width, channels, to_height, to_width, filter;
    std::uint32_t crc;
};

// Of `noise` pictures; filters count nearest, box, bilinear, hamming, bicubic, lanczos.
inline constexpr golden_resize golden_resizes[] = {
    {64, 48, 3, 20, 31, 0, 0xbbee7ffa},
    {64, 48, 3, 20, 31, 1, 0xc2a73599},
    {64, 48, 3, 20, 31, 2, 0x63423efb},
    {64, 48, 3, 20, 31, 3, 0x342825bc},
    {64, 48, 3, 20, 31, 4, 0xc3f2ce29},
    {64, 48, 3, 20, 31, 5, 0xda823477},
    {20, 31, 3, 64, 48, 0, 0x2b962c7f},
    {20, 31, 3, 64, 48, 1, 0x2b962c7f},
    {20, 31, 3, 64, 48, 2, 0x2ac77344},
    {20, 31, 3, 64, 48, 3, 0x0b13a58a},
    {20, 31, 3, 64, 48, 4, 0xb3c89d9e},
    {20, 31, 3, 64, 48, 5, 0x88ce24db},
    {50, 50, 1, 50, 7, 0, 0x5dc2b6c4},
    {50, 50, 1, 50, 7, 1, 0x23bfae3f},
    {50, 50, 1, 50, 7, 2, 0x558f8f57},
    {50, 50, 1, 50, 7, 3, 0x0108f36d},
    {50, 50, 1, 50, 7, 4, 0x9f3c0a0e},
    {50, 50, 1, 50, 7, 5, 0x6659c9e1},
    {33, 5, 3, 90, 5, 0, 0x7bd12329},
    {33, 5, 3, 90, 5, 1, 0x7bd12329},
    {33, 5, 3, 90, 5, 2, 0xde9ec3e3},
    {33, 5, 3, 90, 5, 3, 0xa806f340},
    {33, 5, 3, 90, 5, 4, 0x86b64303},
    {33, 5, 3, 90, 5, 5, 0x2f0f5016},
    {300, 9, 3, 11, 6, 0, 0xc2bcfc22},
    {300, 9, 3, 11, 6, 1, 0x4e50c8e9},
    {300, 9, 3, 11, 6, 2, 0x86b42c3e},
    {300, 9, 3, 11, 6, 3, 0x9cecb561},
    {300, 9, 3, 11, 6, 4, 0x5a6a1d1e},
    {300, 9, 3, 11, 6, 5, 0x2975c4db},
    {9, 200, 1, 30, 17, 0, 0xe589f79f},
    {9, 200, 1, 30, 17, 1, 0x87dc0ecc},
    {9, 200, 1, 30, 17, 2, 0x2c0d702a},
    {9, 200, 1, 30, 17, 3, 0x960cfa0f},
    {9, 200, 1, 30, 17, 4, 0x015f47d0},
    {9, 200, 1, 30, 17, 5, 0x46638c45},
    {1, 1, 3, 5, 4, 0, 0xe8d2a8b3},
    {1, 1, 3, 5, 4, 1, 0xe8d2a8b3},
    {1, 1, 3, 5, 4, 2, 0xe8d2a8b3},
    {1, 1, 3, 5, 4, 3, 0xe8d2a8b3},
    {1, 1, 3, 5, 4, 4, 0xe8d2a8b3},
    {1, 1, 3, 5, 4, 5, 0xe8d2a8b3},
    {90, 40, 3, 30, 39, 0, 0x75aa75d1},
    {90, 40, 3, 30, 39, 1, 0x8fe9c7ce},
    {90, 40, 3, 30, 39, 2, 0xbf8910e9},
    {90, 40, 3, 30, 39, 3, 0x66e3116d},
    {90, 40, 3, 30, 39, 4, 0x4d471ba2},
    {90, 40, 3, 30, 39, 5, 0x574eeaf9},
    {200, 150, 3, 1, 1, 0, 0xa13c467c},
    {200, 150, 3, 1, 1, 1, 0xc8f1ffeb},
    {200, 150, 3, 1, 1, 2, 0xc8f1ffeb},
    {200, 150, 3, 1, 1, 3, 0xc8f1ffeb},
    {200, 150, 3, 1, 1, 4, 0xc8f1ffeb},
    {200, 150, 3, 1, 1, 5, 0xc8f1ffeb},
    {120, 100, 3, 119, 99, 0, 0x9f73cbcf},
    {120, 100, 3, 119, 99, 1, 0x963ada0f},
    {120, 100, 3, 119, 99, 2, 0xa2631cd3},
    {120, 100, 3, 119, 99, 3, 0x4eb95961},
    {120, 100, 3, 119, 99, 4, 0x9cf5d0dd},
    {120, 100, 3, 119, 99, 5, 0x9c625ee7},
};
