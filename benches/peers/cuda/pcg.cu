// PCG with the diagonal as preconditioner, written by hand for two energies, float32, in two ways:
//   three  three kernels an iteration, as published for Opt: A p and z are stored
//   two    two sweeps: A p is computed twice and never stored, z not either
// pcg laplacian|image_warping N ITERATIONS TIMES prints a line per way: its name, r.z behind 20 iterations, and the seconds of TIMES runs
// of so many iterations. It is compared with generated code by r.z.

#include "sweep.h"
#include <string>

template <int N> HD Vec<N> load(const float *v, size_t area, size_t i) {
    Vec<N> out;
    for (int c = 0; c < N; c++) out.v[c] = v[c * area + i];
    return out;
}
template <int N> HD void store(float *v, size_t area, size_t i, const Vec<N> &value) {
    for (int c = 0; c < N; c++) v[c * area + i] = value.v[c];
}
template <int N> HD float dot(const Vec<N> &a, const Vec<N> &b) {
    float sum = 0.0f;
    for (int c = 0; c < N; c++) sum += a.v[c] * b.v[c];
    return sum;
}
template <int N> HD Vec<N> times(const Vec<N> &a, const Vec<N> &b) {
    Vec<N> out;
    for (int c = 0; c < N; c++) out.v[c] = a.v[c] * b.v[c];
    return out;
}
template <int N> HD Vec<N> plus(const Vec<N> &a, float s, const Vec<N> &b) {
    Vec<N> out;
    for (int c = 0; c < N; c++) out.v[c] = a.v[c] + s * b.v[c];
    return out;
}
HD float ratio(const double *a, const double *b) { return *b > 0.0 ? float(*a) / float(*b) : 0.0f; }

// Vectors: x, r, p, and what one of the two ways needs. Sums of iteration k: p.Ap at pq[k], r.z before it at rz[k].
template <class E> struct State {
    E e;
    float *x, *r, *p, *q, *z, *inverse;
    double *pq, *rz;
    size_t area() const { return size_t(e.n) * e.n; }
};

// p of a stored vector.
template <int N> struct Stored {
    const float *p;
    size_t n, area;
    HD Vec<N> operator()(int x, int y) const { return load<N>(p, area, size_t(y) * n + x); }
};

// z + beta p, computed where it is read.
template <int N> struct Next {
    const float *r, *p, *inverse;
    float beta;
    size_t n, area;
    HD Vec<N> operator()(int x, int y) const {
        size_t i = size_t(y) * n + x;
        return plus<N>(times<N>(load<N>(inverse, area, i), load<N>(r, area, i)), beta, load<N>(p, area, i));
    }
};

// inverse = 1 / diag.
template <class E> struct Diagonal {
    State<E> s;
    HD float operator()(int x, int y) const {
        store<E::N>(s.inverse, size_t(s.e.n) * s.e.n, size_t(y) * s.e.n + x, s.e.inverse(x, y));
        return 0.0f;
    }
};

// z = r / diag, p = z, r.z: the start of both ways (p = 0 for the two sweeps).
template <class E> struct Begin {
    State<E> s;
    bool two;
    HD float operator()(int x, int y) const {
        size_t area = size_t(s.e.n) * s.e.n, i = size_t(y) * s.e.n + x;
        Vec<E::N> r = load<E::N>(s.r, area, i), z = times<E::N>(load<E::N>(s.inverse, area, i), r);
        if (!two) store<E::N>(s.p, area, i, z);
        return dot<E::N>(r, z);
    }
};

// Three kernels: q = A p, p.q ...
template <class E> struct Apply {
    State<E> s;
    HD float operator()(int x, int y) const {
        size_t area = size_t(s.e.n) * s.e.n, i = size_t(y) * s.e.n + x;
        Stored<E::N> p = {s.p, size_t(s.e.n), area};
        Vec<E::N> q = s.e.apply(x, y, p);
        store<E::N>(s.q, area, i, q);
        return dot<E::N>(p(x, y), q);
    }
};
// ... x += alpha p, r -= alpha q, z = r / diag, r.z ...
template <class E> struct Update {
    State<E> s;
    int k;
    HD float operator()(int x, int y) const {
        size_t area = size_t(s.e.n) * s.e.n, i = size_t(y) * s.e.n + x;
        float alpha = ratio(s.rz + k, s.pq + k);
        store<E::N>(s.x, area, i, plus<E::N>(load<E::N>(s.x, area, i), alpha, load<E::N>(s.p, area, i)));
        Vec<E::N> r = plus<E::N>(load<E::N>(s.r, area, i), -alpha, load<E::N>(s.q, area, i));
        Vec<E::N> z = times<E::N>(load<E::N>(s.inverse, area, i), r);
        store<E::N>(s.r, area, i, r);
        store<E::N>(s.z, area, i, z);
        return dot<E::N>(r, z);
    }
};
// ... p = z + beta p.
template <class E> struct Direction {
    State<E> s;
    int k;
    HD float operator()(int x, int y) const {
        size_t area = size_t(s.e.n) * s.e.n, i = size_t(y) * s.e.n + x;
        float beta = ratio(s.rz + k + 1, s.rz + k);
        store<E::N>(s.p, area, i, plus<E::N>(load<E::N>(s.z, area, i), beta, load<E::N>(s.p, area, i)));
        return 0.0f;
    }
};

// Two sweeps: p' = z + beta p, p'.Ap' ...
template <class E> struct SweepA {
    State<E> s;
    const float *before;
    float *after;
    int k;
    HD float operator()(int x, int y) const {
        size_t area = size_t(s.e.n) * s.e.n, i = size_t(y) * s.e.n + x;
        float beta = k == 0 ? 0.0f : ratio(s.rz + k, s.rz + k - 1);
        Next<E::N> p = {s.r, before, s.inverse, beta, size_t(s.e.n), area};
        Vec<E::N> own = p(x, y);
        store<E::N>(after, area, i, own);
        return dot<E::N>(own, s.e.apply(x, y, p));
    }
};
// ... x += alpha p, r -= alpha A p, r.z.
template <class E> struct SweepB {
    State<E> s;
    const float *p;
    int k;
    HD float operator()(int x, int y) const {
        size_t area = size_t(s.e.n) * s.e.n, i = size_t(y) * s.e.n + x;
        float alpha = ratio(s.rz + k, s.pq + k);
        Stored<E::N> stored = {p, size_t(s.e.n), area};
        store<E::N>(s.x, area, i, plus<E::N>(load<E::N>(s.x, area, i), alpha, stored(x, y)));
        Vec<E::N> r = plus<E::N>(load<E::N>(s.r, area, i), -alpha, s.e.apply(x, y, stored));
        store<E::N>(s.r, area, i, r);
        return dot<E::N>(r, times<E::N>(load<E::N>(s.inverse, area, i), r));
    }
};

template <class E> void restart(const State<E> &s, const float *b, int iterations, bool two) {
    size_t floats = E::N * s.area();
    copy(s.r, b, floats);
    clear(s.x, floats);
    clear(s.p, floats);
    clear(s.q, floats);
    clear(s.pq, iterations + 2);
    clear(s.rz, iterations + 2);
    sweep(s.e.n, Begin<E>{s, two}, s.rz);
}

template <class E> void iterate(const State<E> &s, int iterations, bool two) {
    for (int k = 0; k < iterations; k++) {
        if (two) {
            // p and q take turns.
            const float *before = k % 2 == 0 ? s.q : s.p;
            float *after = k % 2 == 0 ? s.p : s.q;
            sweep(s.e.n, SweepA<E>{s, before, after, k}, s.pq + k);
            sweep(s.e.n, SweepB<E>{s, after, k}, s.rz + k + 1);
        } else {
            sweep(s.e.n, Apply<E>{s}, s.pq + k);
            sweep(s.e.n, Update<E>{s, k}, s.rz + k + 1);
            sweep(s.e.n, Direction<E>{s, k}, nullptr);
        }
    }
}

template <class E> void measure(const E &e, const std::vector<float> &gradient, int iterations, int times) {
    const int checked = 20;
    size_t floats = E::N * size_t(e.n) * e.n;
    int most = iterations > checked ? iterations : checked;
    float *b = to_device(gradient);
    State<E> s = {e, allocate<float>(floats), allocate<float>(floats), allocate<float>(floats), allocate<float>(floats),
                  allocate<float>(floats), allocate<float>(floats), allocate<double>(most + 2), allocate<double>(most + 2)};
    sweep(e.n, Diagonal<E>{s}, nullptr);
    for (int way = 0; way < 4; way++) {
        bool two = way % 2 == 1, graph = way >= 2;
        restart(s, b, most, two);
        iterate(s, checked, two);
        double rz = 0.0;
        to_host(&rz, s.rz + checked, 1);
        printf("%s%s %.9e", two ? "two" : "three", graph ? "_graph" : "", rz);
        for (int t = 0; t <= times; t++) {
            restart(s, b, most, two);
            double time = seconds(graph, [&] { iterate(s, iterations, two); });
            if (t > 0) printf(" %.9e", time);
        }
        printf("\n");
    }
    float *const all[] = {b, s.x, s.r, s.p, s.q, s.z, s.inverse};
    for (int i = 0; i < 7; i++) release(all[i]);
    release(s.pq);
    release(s.rz);
}

int main(int count, char **arguments) {
    if (count != 5) {
        fprintf(stderr, "usage: pcg laplacian|image_warping N ITERATIONS TIMES\n");
        return 2;
    }
    std::string energy = arguments[1];
    int n = atoi(arguments[2]), iterations = atoi(arguments[3]), times = atoi(arguments[4]);
    if (n < 2 || iterations < 1 || times < 1) return 2;
    if (energy == Laplacian::name) {
        Laplacian e = {n};
        measure(e, gradient(e), iterations, times);
    } else if (energy == Warping::name) {
        WarpingInputs inputs(n);
        Warping host = inputs.energy(n);
        Warping e = {n, to_device(inputs.rest), to_device(inputs.angle), to_device(inputs.dragged), to_device(inputs.mask)};
        measure(e, gradient(host), iterations, times);
    } else {
        fprintf(stderr, "no energy %s\n", energy.c_str());
        return 2;
    }
    return 0;
}
