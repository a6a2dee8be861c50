// A locale whose point is a comma, made by localedef: systems rarely have one installed.
#pragma once

#include "../data/made_dataset.hpp"

#include <clocale>
#include <cstdlib>
#include <string>

// LC_NUMERIC with a comma for a point while it lives; `set` is false where this system cannot make such a locale.
class comma_locale {
public:
    comma_locale() {
#if defined(__linux__) && defined(__GLIBC__)
        folder_.put("comma.txt", "comment_char %\nescape_char /\nLC_NUMERIC\ndecimal_point \",\"\nthousands_sep \"\"\ngrouping -1\nEND LC_NUMERIC\n");
        folder_.put("ascii.txt", "<code_set_name> ASCII\n<comment_char> %\n<escape_char> /\nCHARMAP\n<U0000>..<U007F> /x00 ASCII\nEND CHARMAP\n");
        // It warns of the categories that are not there, and makes them.
        const std::string command = "cd '" + folder_.path + "' && localedef --no-archive -c -f ./ascii.txt -i ./comma.txt ./comma >log 2>&1";
        if (std::system(command.c_str()) < 0) return;
        setenv("LOCPATH", folder_.path.c_str(), 1);
        set = std::setlocale(LC_NUMERIC, "comma") != nullptr;
        unsetenv("LOCPATH");
#endif
    }
    ~comma_locale() { std::setlocale(LC_NUMERIC, "C"); }
    comma_locale(const comma_locale&) = delete;
    comma_locale& operator=(const comma_locale&) = delete;

    bool set = false;

private:
    made_folder folder_;
};
