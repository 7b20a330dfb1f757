/* sim.h: stand-ins for the vendor's hls_stream.h and hls_vector.h, as far as the kernels here use
 * them. A stream has no depth: a stage of a simulation runs to its end before the next begins. What
 * is left in one would be the first that the kernel's next run reads. */
#pragma once

#include <cassert>
#include <cstddef>
#include <deque>

namespace hls {

template <typename T, size_t N> struct vector {
    T data[N] = {};

    T       &operator[](size_t i) { return data[i]; }
    const T &operator[](size_t i) const { return data[i]; }
};

template <typename T> struct stream {
    std::deque<T> held;

    void write(const T &x) { held.push_back(x); }
    T    read()
    {
        assert(!held.empty()); // on a card it would wait for ever
        T x = held.front();
        held.pop_front();
        return x;
    }
    ~stream() { assert(held.empty()); }
};

} // namespace hls
