// Macros that other people's headers define, each with a text that no code can hold, or in its own form where it takes arguments: what
// a host program may have included before graft. HOSTILE(X) lists those without arguments, for restored_macros.hpp to look at.
#pragma once

// windows.h and what it brings
#define near @near
#define far @far
#define small @small
#define hyper @hyper
#define interface @interface
#define pascal @pascal
#define cdecl @cdecl
#define IN @IN
#define OUT @OUT
#define OPTIONAL @OPTIONAL
#define ERROR @ERROR
#define DELETE @DELETE
#define NO_ERROR @NO_ERROR
#define STRICT @STRICT
#define IGNORE @IGNORE
#define THIS @THIS
#define CONST @CONST
#define VOID @VOID
#define TRUE @TRUE
#define FALSE @FALSE
#define ABSOLUTE @ABSOLUTE
#define RELATIVE @RELATIVE
#define CALLBACK @CALLBACK
#define TRANSPARENT @TRANSPARENT
#define DIFFERENCE @DIFFERENCE
#define min(a, b) (((a) < (b)) ? (a) : (b))
#define max(a, b) (((a) > (b)) ? (a) : (b))
#define LoadString @LoadString
#define GetObject @GetObject
#define CreateFile @CreateFile
#define Yield() @Yield
// X11
#define None @None
#define Bool @Bool
#define Status @Status
#define True @True
#define False @False
#define Success @Success
#define Always @Always
#define Above @Above
#define Below @Below
#define Complex @Complex
#define Convex @Convex
#define Unsorted @Unsorted
#define KeyPress @KeyPress
#define FocusIn @FocusIn
// complex.h, termios.h, curses.h and term.h, sys/sysmacros.h, arpa/telnet.h
#define I @I
#define _Complex_I @_Complex_I
#define ECHO @ECHO
#define B0 @B0
#define ERR @ERR
#define lines @lines
#define columns @columns
#define newline @newline
#define tab @tab
#define bell @bell
#define border(a, b, c, d, e, f, g, h) @border
#define major(device) @major
#define minor(device) @minor
#define makedev(a, b) @makedev
#define DO @DO
#define DONT @DONT
// Qt and Boost
#define signals @signals
#define slots @slots
#define emit @emit
#define foreach @foreach
#define forever @forever
// Apple, Unreal
#define check(condition) @check
#define verify(condition) @verify
#define require(condition, label) @require
#define require_action(condition, label, action) @require_action
#define check_noerr(code) @check_noerr
#define verify_noerr(code) @verify_noerr
#define ensure(condition) @ensure
#define nil @nil
#define Nil @Nil
#define YES @YES
#define NO @NO
#define TEXT(x) @TEXT
#define PI @PI
// Arduino and other small systems
#define abs(x) @abs
#define round(x) @round
#define sq(x) @sq
#define bit(b) @bit
#define radians(degrees) @radians
#define degrees(radians) @degrees
#define constrain(x, low, high) @constrain
#define word(...) @word
#define interrupts() @interrupts
#define F(text) @F
#define HIGH @HIGH
#define LOW @LOW
#define INPUT @INPUT
#define OUTPUT @OUTPUT
#define DEFAULT @DEFAULT
#undef unix
#undef linux
#define unix @unix
#define linux @linux
// Checks and logs of many projects
#define CHECK(condition) @CHECK
#define ASSERT(condition) @ASSERT
#define LOG(level) @LOG
#define DEBUG @DEBUG
#define INFO @INFO
#define WARNING @WARNING
#define STATUS @STATUS
#define likely(x) @likely
#define unlikely(x) @unlikely
