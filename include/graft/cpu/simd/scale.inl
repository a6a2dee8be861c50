// a * 2^n for whole n in [-252, 254], where there is no instruction for it. Two factors, so that subnormal results round once
// and too large ones become infinity. Text, included inside the namespace and region of each instruction set but avx512.

GRAFT_VECTOR V scale(V a, V n) {
    const I whole = to_int(n), half = shift_right_arithmetic<1>(whole), bias = I::set1(127);
    return a * as_float(shift_left<23>(half + bias)) * as_float(shift_left<23>(whole - half + bias));
}
