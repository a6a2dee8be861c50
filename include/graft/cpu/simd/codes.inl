// Sixteen reals, in steps from the zero point, become codes: rounded, halves to even, and cut to [low, high]. Text, included inside the namespace and
// region of each instruction set that has nothing shorter.

GRAFT_VECTOR void store_codes(const V (&steps)[16 / V::W], int zero, int low, int high, std::uint8_t* to) {
    const V least = V::set1(static_cast<float>(low - zero)), most = V::set1(static_cast<float>(high - zero));
    // The zero point is added behind the rounding: halves go to the even number of steps from it.
    const I shift = I::set1(zero);
    GRAFT_UNROLL
    for (int k = 0; k < 16 / V::W; ++k) store_8(to_int(min(max(steps[k], least), most)) + shift, to + k * V::W);
}
