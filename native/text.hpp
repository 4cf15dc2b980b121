// Entries of a sparse tensor as text: one a line, its coordinates and its value.
#pragma once

#include <algorithm>
#include <cfloat>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <locale>
#include <sstream>
#include <string>
#include <vector>

#include "parallel.hpp"

namespace tensormend {

// What can be wrong with a line; the numbers are those of kernels/reference.py.
enum Wrong : int64_t {
    no_fault = 0,
    column_count = 1,
    no_integer = 2,
    out_of_range = 3,
    no_number = 4,
    infinite_number = 5,
};

// The first line at fault, counted from 0, and the column at fault or how many there are.
struct Fault {
    Wrong wrong = no_fault;
    int64_t line = 0, column = 0;
};

inline bool is_gap(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r' && c != '\n');
}
inline bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

// Without regard to the locale; for numbers at the ends of the range, and for standard libraries
// whose from_chars takes integers only.
inline double slow_number(const char* begin, const char* end) {
    std::istringstream in(std::string(begin, end));
    in.imbue(std::locale::classic());
    double number = 0;
    in >> number;
    const bool is_beyond = in.fail() && std::abs(number) >= DBL_MAX;
    return is_beyond ? std::copysign(std::numeric_limits<double>::infinity(), number) : number;
}

// Whether text is a word, in small or capital letters.
inline bool is_word(const char* begin, const char* end, const char* word) {
    const size_t size = std::strlen(word);
    if (size_t(end - begin) != size) return false;
    for (size_t i = 0; i < size; ++i)
        if ((begin[i] | 0x20) != word[i]) return false;
    return true;
}

// Where the digits, the point and the exponent of a decimal number end.
inline const char* skip_decimal(const char* at, const char* end) {
    const char* const begin = at;
    int64_t n_digits = 0;
    for (; at < end && is_digit(*at); ++at) ++n_digits;
    if (at < end && *at == '.')
        for (++at; at < end && is_digit(*at); ++at) ++n_digits;
    if (n_digits == 0) return begin;
    if (at < end && (*at == 'e' || *at == 'E')) {
        const char* exponent = at + 1;
        if (exponent < end && (*exponent == '+' || *exponent == '-')) ++exponent;
        if (exponent < end && is_digit(*exponent)) {
            while (exponent < end && is_digit(*exponent)) ++exponent;
            at = exponent;
        }
    }
    return at;
}

// Read a number, rounded correctly.
inline Wrong parse_number(const char* begin, const char* end, double& number) {
    const bool is_negative = *begin == '-';
    const char* const digits = begin + (is_negative || *begin == '+');
    if (digits == end) return no_number;
    if (!is_digit(*digits) && *digits != '.') {
        if (is_word(digits, end, "inf") || is_word(digits, end, "infinity")) return infinite_number;
        if (!is_word(digits, end, "nan")) return no_number;
        number = std::numeric_limits<double>::quiet_NaN();
        return no_fault;
    }
#if defined(__cpp_lib_to_chars)
    const auto read = std::from_chars(digits, end, number);
    if (read.ptr != end || read.ec == std::errc::invalid_argument) return no_number;
    if (read.ec == std::errc::result_out_of_range) number = slow_number(digits, end);
#else
    if (skip_decimal(digits, end) != end) return no_number;
    number = slow_number(digits, end);
#endif
    if (std::isinf(number)) return infinite_number;
    if (is_negative) number = -number;
    return no_fault;
}

// Read a coordinate that counts from 1.
inline Wrong parse_coordinate(const char* begin, const char* end, int64_t bound, uint32_t& index) {
    const bool has_sign = *begin == '-' || *begin == '+';
    const char* at = begin + has_sign;
    if (at == end) return no_integer;
    uint64_t number = 0;
    for (; at < end; ++at) {
        if (!is_digit(*at)) return no_integer;
        number = std::min<uint64_t>(number * 10 + uint64_t(*at - '0'), uint64_t(1) << 40);
    }
    if (number < 1 || number > uint64_t(bound) || *begin == '-') return out_of_range;
    index = uint32_t(number - 1);
    return no_fault;
}

inline bool ends_token(const char* at, const char* end) {
    return at == end || is_gap(*at) || *at == '\n' || *at == '#';
}

// Read what nearly all lines hold, digits without a sign and plain decimals, without looking for
// the end of the token first. Returns the end, or nullptr if there is something else.
inline const char* parse_quickly(const char* at, const char* end, int64_t bound, uint32_t& index) {
    constexpr int64_t max_digits = 10;
    const char* const stop = end - at > max_digits ? at + max_digits : end;
    uint64_t number = 0;
    for (; at < stop && is_digit(*at); ++at) number = number * 10 + uint64_t(*at - '0');
    if (!ends_token(at, end) || number < 1 || number > uint64_t(bound)) return nullptr;
    index = uint32_t(number - 1);
    return at;
}

inline const char* parse_quickly(const char* at, const char* end, double& number) {
#if defined(__cpp_lib_to_chars)
    const char* const digits = at + (*at == '-');
    if (digits == end || !is_digit(*digits)) return nullptr;
    const auto read = std::from_chars(at, end, number);
    return read.ec == std::errc() && ends_token(read.ptr, end) ? read.ptr : nullptr;
#else
    static_cast<void>(at), static_cast<void>(end), static_cast<void>(number);
    return nullptr;
#endif
}

// Lines of text, and the entries that were read from them.
struct Piece {
    const char *begin, *end;
    int64_t first;  // of its rows in the output
    int64_t n_lines, n_entries;
    Fault fault;
};

inline void parse_piece(Piece& piece, const std::vector<int64_t>& bounds, uint32_t* indices,
                        double* values) {
    const int64_t d = int64_t(bounds.size());
    indices += piece.first * d;
    values += piece.first;
    int64_t line = 0;
    for (const char* at = piece.begin; at < piece.end; ++line) {
        int64_t n_columns = 0;
        Fault fault;
        while (true) {
            while (at < piece.end && is_gap(*at)) ++at;
            if (at == piece.end || *at == '\n' || *at == '#') break;
            const char* const token = at;
            const char* quick = nullptr;
            if (n_columns < d)
                quick = parse_quickly(at, piece.end, bounds[size_t(n_columns)], indices[n_columns]);
            else if (n_columns == d)
                quick = parse_quickly(at, piece.end, *values);
            if (quick) {
                at = quick;
                ++n_columns;
                continue;
            }
            while (!ends_token(at, piece.end)) ++at;
            if (n_columns <= d && fault.wrong == no_fault) {
                const Wrong wrong =
                    n_columns < d
                        ? parse_coordinate(token, at, bounds[size_t(n_columns)], indices[n_columns])
                        : parse_number(token, at, *values);
                if (wrong != no_fault) fault = {wrong, line, n_columns};
            }
            ++n_columns;
        }
        if (n_columns != 0 && n_columns != d + 1) fault = {column_count, line, n_columns};
        if (fault.wrong != no_fault) {
            piece.fault = fault;
            return;
        }
        if (n_columns != 0) {
            indices += d;
            ++values;
            ++piece.n_entries;
        }
        while (at < piece.end && *at != '\n') ++at;
        at += at < piece.end;
    }
}

// Cut text at line ends into pieces of about a megabyte, with room in the output for an entry
// a line each. Returns the rows that the output needs.
inline int64_t cut_lines(const char* text, int64_t size, int64_t threads,
                         std::vector<Piece>& pieces) {
    constexpr int64_t piece_bytes = int64_t(1) << 20;
    const char* const end = text + size;
    for (const char* at = text; at < end;) {
        const char* stop = end - at > piece_bytes ? at + piece_bytes : end;
        if (stop < end) {
            const void* const newline = std::memchr(stop, '\n', size_t(end - stop));
            stop = newline ? static_cast<const char*>(newline) + 1 : end;
        }
        pieces.push_back({at, stop, 0, 0, 0, {}});
        at = stop;
    }
    run_tasks(int64_t(pieces.size()), threads, [&](int64_t i) {
        Piece& piece = pieces[size_t(i)];
        piece.n_lines = std::count(piece.begin, piece.end, '\n');
        piece.n_lines += piece.end > piece.begin && piece.end[-1] != '\n';
    });
    int64_t rows = 0;
    for (Piece& piece : pieces) {
        piece.first = rows;
        rows += piece.n_lines;
    }
    return rows;
}

// Read all pieces and close the gaps that lines without an entry leave. Returns how many entries
// there are.
inline int64_t parse_pieces(std::vector<Piece>& pieces, const std::vector<int64_t>& bounds,
                            uint32_t* indices, double* values, int64_t threads, Fault& fault) {
    const int64_t d = int64_t(bounds.size());
    run_tasks(int64_t(pieces.size()), threads,
              [&](int64_t i) { parse_piece(pieces[size_t(i)], bounds, indices, values); });
    int64_t n_lines = 0, n_entries = 0;
    for (const Piece& piece : pieces) {
        if (piece.fault.wrong != no_fault) {
            fault = piece.fault;
            fault.line += n_lines;
            return 0;
        }
        if (piece.first != n_entries) {
            std::copy_n(indices + piece.first * d, piece.n_entries * d, indices + n_entries * d);
            std::copy_n(values + piece.first, piece.n_entries, values + n_entries);
        }
        n_lines += piece.n_lines;
        n_entries += piece.n_entries;
    }
    return n_entries;
}

// Append a number with the fewest digits that read back as the same.
template <class Number>
void append_number(std::string& out, Number number) {
#if defined(__cpp_lib_to_chars)
    char digits[32];
    out.append(digits, std::to_chars(digits, digits + sizeof digits, number).ptr);
#else
    std::ostringstream shown;
    shown.imbue(std::locale::classic());
    shown.precision(std::numeric_limits<Number>::max_digits10);
    shown << number;
    out += shown.str();
#endif
}

// The same entries as text, coordinates counted from 1.
template <class Number>
std::string format_rows(const int64_t* indices, const Number* values, int64_t n_entries, int64_t d,
                        int64_t threads) {
    constexpr int64_t rows_per_block = 16384;
    const int64_t n_blocks = (n_entries + rows_per_block - 1) / rows_per_block;
    std::vector<std::string> blocks(static_cast<size_t>(n_blocks));
    run_tasks(n_blocks, threads, [&](int64_t b) {
        std::string& out = blocks[size_t(b)];
        char digits[24];
        for (int64_t i = b * rows_per_block; i < std::min(n_entries, (b + 1) * rows_per_block);
             ++i) {
            for (int64_t k = 0; k < d; ++k) {
                const auto end = std::to_chars(digits, digits + 24, indices[i * d + k] + 1).ptr;
                out.append(digits, end);
                out += ' ';
            }
            append_number(out, values[i]);
            out += '\n';
        }
    });
    std::string text;
    size_t size = 0;
    for (const auto& block : blocks) size += block.size();
    text.reserve(size);
    for (const auto& block : blocks) text += block;
    return text;
}

}  // namespace tensormend
