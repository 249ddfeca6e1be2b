// Systems J^T J d = -J^T r of two energies on a grid of n x n pixels, matrix-free: what a kernel needs at one pixel. Vectors are planar, a
// component after the other.

#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#ifdef SERIAL
#define HD inline
#else
#define HD __host__ __device__ inline
#endif

// A number per component.
template <int N> struct Vec {
    float v[N];
};

// Numbers in [0, 1), the same as sumsq's benchmarks make.
inline float noise(size_t i) { return float((uint32_t(i) * 2654435761u) >> 8) / float(1 << 24); }

// The neighbours of a pixel.
HD int neighbour_x(int k) { return k == 0 ? 1 : k == 1 ? -1 : 0; }
HD int neighbour_y(int k) { return k == 2 ? 1 : k == 3 ? -1 : 0; }

// E = sum of 0.2^2 (X - A)^2 and squared differences of neighbours.
struct Laplacian {
    static constexpr int N = 1;
    static constexpr const char *name = "laplacian";
    int n;

    HD bool inside(int x, int y) const { return x >= 0 && y >= 0 && x < n && y < n; }

    // 1 / diag(J^T J) at a pixel.
    HD Vec<1> inverse(int x, int y) const {
        int edges = (x > 0) + (y > 0) + (x + 1 < n) + (y + 1 < n);
        return {{1.0f / (0.04f + float(edges))}};
    }

    // (J^T J p) at a pixel; p(x, y) is the vector there.
    template <class P> HD Vec<1> apply(int x, int y, const P &p) const {
        float own = p(x, y).v[0], sum = 0.04f * own;
        for (int k = 0; k < 4; k++) {
            int u = x + neighbour_x(k), w = y + neighbour_y(k);
            if (inside(u, w)) sum += own - p(u, w).v[0];
        }
        return {{sum}};
    }
};

// The start of the Laplacian, X = 0: -J^T r.
inline std::vector<float> gradient(const Laplacian &e) {
    std::vector<float> b(size_t(e.n) * e.n);
    for (size_t i = 0; i < b.size(); i++) b[i] = 0.04f * noise(i);
    return b;
}

// As-rigid-as-possible warping: each pixel has an offset and an angle; edges keep their shape up to the angle of their first pixel.
struct Warping {
    static constexpr int N = 3;
    static constexpr const char *name = "image_warping";
    static constexpr float w_fit = 10.0f, w_reg = 0.1f;
    int n;
    // Of each pixel: rest position, planar; angle; 1 where it is dragged; 0 inside the shape.
    const float *rest, *angle, *dragged, *mask;

    HD bool free(int x, int y) const {
        return x >= 0 && y >= 0 && x < n && y < n && mask[size_t(y) * n + x] == 0.0f;
    }

    // The derivative of the turned edge from pixel i to pixel j by the angle of i.
    HD void turned(size_t i, size_t j, float &dx, float &dy) const {
        size_t area = size_t(n) * n;
        float ex = rest[i] - rest[j], ey = rest[area + i] - rest[area + j];
        float c = cosf(angle[i]), s = sinf(angle[i]);
        dx = -s * ex - c * ey;
        dy = c * ex - s * ey;
    }

    HD Vec<3> inverse(int x, int y) const {
        size_t i = size_t(y) * n + x;
        if (!free(x, y)) return {{0.0f, 0.0f, 0.0f}};
        float offset = dragged[i] != 0.0f ? w_fit * w_fit : 0.0f, angle = 0.0f;
        for (int k = 0; k < 4; k++) {
            int u = x + neighbour_x(k), w = y + neighbour_y(k);
            if (!free(u, w)) continue;
            float dx, dy;
            turned(i, size_t(w) * n + u, dx, dy);
            offset += 2.0f * w_reg * w_reg;
            angle += w_reg * w_reg * (dx * dx + dy * dy);
        }
        float a = offset > 0.0f ? 1.0f / offset : 0.0f, b = angle > 0.0f ? 1.0f / angle : 0.0f;
        return {{a, a, b}};
    }

    template <class P> HD Vec<3> apply(int x, int y, const P &p) const {
        size_t i = size_t(y) * n + x;
        if (!free(x, y)) return {{0.0f, 0.0f, 0.0f}};
        Vec<3> own = p(x, y), sum = {{0.0f, 0.0f, 0.0f}};
        const float w2 = w_reg * w_reg;
        for (int k = 0; k < 4; k++) {
            int u = x + neighbour_x(k), w = y + neighbour_y(k);
            if (!free(u, w)) continue;
            size_t j = size_t(w) * n + u;
            Vec<3> other = p(u, w);
            float dx, dy, ox, oy;
            turned(i, j, dx, dy);
            turned(j, i, ox, oy);
            float px = own.v[0] - other.v[0], py = own.v[1] - other.v[1];
            // The edge from here, and the one back.
            float tx = px - dx * own.v[2], ty = py - dy * own.v[2];
            float bx = -px - ox * other.v[2], by = -py - oy * other.v[2];
            sum.v[0] += w2 * (tx - bx);
            sum.v[1] += w2 * (ty - by);
            sum.v[2] -= w2 * (dx * tx + dy * ty);
        }
        if (dragged[i] != 0.0f) {
            sum.v[0] += w_fit * w_fit * own.v[0];
            sum.v[1] += w_fit * w_fit * own.v[1];
        }
        return sum;
    }
};

// Inputs of the warping, on the host.
struct WarpingInputs {
    std::vector<float> rest, angle, dragged, mask;

    explicit WarpingInputs(int n)
        : rest(size_t(2) * n * n), angle(size_t(n) * n), dragged(size_t(n) * n), mask(size_t(n) * n) {
        size_t area = size_t(n) * n;
        for (size_t i = 0; i < area; i++) {
            rest[i] = float(i % n);
            rest[area + i] = float(i / n);
            angle[i] = 0.1f * noise(i);
            dragged[i] = i % n % 64 == 32 && i / n % 64 == 32 ? 1.0f : 0.0f;
        }
    }

    Warping energy(int n) const { return {n, rest.data(), angle.data(), dragged.data(), mask.data()}; }
};

// The start of the warping, all at rest but for the angles: -J^T r.
inline std::vector<float> gradient(const Warping &e) {
    size_t n = e.n, area = n * n;
    std::vector<float> b(3 * area, 0.0f);
    const double w2 = double(Warping::w_reg) * Warping::w_reg, f2 = double(Warping::w_fit) * Warping::w_fit;
    for (size_t i = 0; i < area; i++) {
        int x = int(i % n), y = int(i / n);
        double gx = 0.0, gy = 0.0, ga = 0.0;
        // The residual of an edge from i to j, without its weight: rest less turned rest.
        auto residual = [&](size_t i, size_t j, double &rx, double &ry) {
            double ex = double(e.rest[i]) - e.rest[j], ey = double(e.rest[area + i]) - e.rest[area + j];
            double c = std::cos(double(e.angle[i])), s = std::sin(double(e.angle[i]));
            rx = ex - (c * ex - s * ey);
            ry = ey - (s * ex + c * ey);
        };
        for (int k = 0; k < 4; k++) {
            int u = x + neighbour_x(k), w = y + neighbour_y(k);
            if (!e.free(u, w)) continue;
            size_t j = size_t(w) * n + u;
            double rx, ry, ox, oy;
            residual(i, j, rx, ry);
            residual(j, i, ox, oy);
            float dx, dy;
            e.turned(i, j, dx, dy);
            gx += w2 * (rx - ox);
            gy += w2 * (ry - oy);
            ga -= w2 * (double(dx) * rx + double(dy) * ry);
        }
        if (e.dragged[i] != 0.0f) {
            // Where it goes is up to 3 pixels to the right and below.
            gx -= f2 * (double(float(x) + 3.0f * noise(2 * i)) - x);
            gy -= f2 * (double(float(y) + 3.0f * noise(2 * i + 1)) - y);
        }
        b[i] = float(-gx);
        b[area + i] = float(-gy);
        b[2 * area + i] = float(-ga);
    }
    return b;
}
