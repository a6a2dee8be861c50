// Sets aside macros that other headers define and graft's own text uses as plain words: of windows.h, Qt, Apple, complex.h, curses,
// Arduino. Every header of include/graft itself that has code begins with this and ends with macros_end.inl, which brings them back.
// Read at every include, so without #pragma once. scripts/check_macros.py knows whose words they are.
#pragma push_macro("I")
#undef I
#pragma push_macro("abs")
#undef abs
#pragma push_macro("border")
#undef border
#pragma push_macro("check")
#undef check
#pragma push_macro("columns")
#undef columns
#pragma push_macro("far")
#undef far
#pragma push_macro("lines")
#undef lines
#pragma push_macro("max")
#undef max
#pragma push_macro("min")
#undef min
#pragma push_macro("near")
#undef near
#pragma push_macro("newline")
#undef newline
#pragma push_macro("round")
#undef round
#pragma push_macro("slots")
#undef slots
#pragma push_macro("small")
#undef small
#pragma push_macro("word")
#undef word
#pragma push_macro("GRAFT_MACROS_ASIDE")
#undef GRAFT_MACROS_ASIDE
#define GRAFT_MACROS_ASIDE
