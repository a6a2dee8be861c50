// Patterns of nodes as text, matched from the last node backwards.
#pragma once

#include "../core/number_text.hpp"
#include "rewriter.hpp"

GRAFT_BEGIN_NAMESPACE
namespace detail {

// "Mul(x, Sigmoid(x))": nodes by their ONNX operators, with all of their inputs. A letter is any value, the same letter the same value; a number is a
// constant of one element, within 1e-6 of it. Operands swap where the operator's row says that they may. All nodes but the last are read by
// nobody else.
class pattern {
public:
    // What a match has found.
    class match {
    public:
        value_id operator[](char letter) const { return letters_[letter - 'a']; }
        // The nodes behind the last one, each before its operands.
        const std::vector<node*>& inner() const { return inner_; }

    private:
        friend class pattern;
        value_id letters_[26];
        std::vector<node*> inner_;
    };

    explicit pattern(const char* text) { well_formed_ = read_term(text) >= 0 && !*text && !terms_[0].op.empty(); }
    // Whether the text was one; what is none matches nothing.
    bool well_formed() const { return well_formed_; }

    // Whether the node is the last one of such a pattern.
    bool matches(rewriter& r, const node& last, match& made) const {
        std::fill(std::begin(made.letters_), std::end(made.letters_), no_value);
        made.inner_.clear();
        return well_formed_ && matches_node(r, terms_[0], last, made);
    }

private:
    struct term {
        std::string op;             // of a node;
        char letter = 0;            // else of a value;
        double number = 0;          // else a constant
        std::vector<int> operands;  // places in terms_
    };

    static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
    static bool is_digit(char c) { return c >= '0' && c <= '9'; }

    // Its place in terms_; -1 where the text is none.
    int read_term(const char*& text) {
        const std::size_t at = terms_.size();
        terms_.emplace_back();
        if (is_digit(*text)) {
            terms_[at].number = read_number(text, &text);
            return static_cast<int>(at);
        }
        const char* const begin = text;
        while (is_letter(*text) || is_digit(*text)) ++text;
        const std::string word(begin, text);
        if (*text == '(') {
            terms_[at].op = word;
            return !word.empty() && read_operands(text, at) ? static_cast<int>(at) : -1;
        }
        if (word.size() != 1 || word[0] < 'a' || word[0] > 'z') return -1;
        terms_[at].letter = word[0];
        return static_cast<int>(at);
    }
    bool read_operands(const char*& text, std::size_t of) {
        do {
            for (++text; *text == ' ';) ++text;
            const int operand = read_term(text);
            if (operand < 0) return false;
            terms_[of].operands.push_back(operand);
        } while (*text == ',');
        return *text++ == ')';
    }

    bool matches_value(rewriter& r, const term& t, value_id id, match& made) const {
        if (id == no_value) return false;
        if (t.letter) {
            value_id& bound = made.letters_[t.letter - 'a'];
            if (bound == no_value) bound = id;
            return bound == id;
        }
        if (t.op.empty()) return r.is_scalar(id, t.number);
        node* n = r.maker(id);
        if (!n || !r.used_once(id)) return false;
        made.inner_.push_back(n);
        return matches_node(r, t, *n, made);
    }
    GRAFT_COLD bool matches_node(rewriter& r, const term& t, const node& n, match& made) const {
        const std::size_t count = t.operands.size();
        if (!r.is(n, t.op.c_str()) || n.inputs.size() != count) return false;
        const match before = made;
        for (const bool swapped : {false, true}) {
            if (swapped && (count != 2 || !r.row(n).is(op_flag::commutes))) break;
            bool all = true;
            for (std::size_t i = 0; i < count && all; ++i)
                all = matches_value(r, terms_[static_cast<std::size_t>(t.operands[i])], n.inputs[swapped ? 1 - i : i], made);
            if (all) return true;
            made = before;
        }
        return false;
    }

    std::vector<term> terms_;
    bool well_formed_ = false;
};

}  // namespace detail
GRAFT_END_NAMESPACE
