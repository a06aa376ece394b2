/* Compiled parts: nearest points, the Laplacian of a point cloud, and solutions with a sparse factor.
   They are optional: where they are absent, libraries serve.

   The Laplacian. N. Sharp, K. Crane: A Laplacian for Nonmanifold Triangle Meshes, SGP 2020. It is the operator that
   the library robust-laplacian makes, entry by entry: what is a matter of choice (tolerances, what
   comes first where two are equal, the sign of a normal) is chosen as there, also where another
   choice would do as well, since that decides between triangulations that are equally good.

   1. Star of each point: triangles at it, of a planar Delaunay triangulation of its neighbours.
   2. Cover: each triangle of all stars gets two sides; around each edge, sides that face each other
      are glued. The result is a closed surface, each edge of it in two triangles.
   3. Mollification: all edges get longer by the least amount that leaves no triangle flat.
   4. Flips of edges, until all are Delaunay. Only lengths count; nothing is in space any more.
   5. Cotangent weights and a third of each area for each corner; divided by 6, since there are two
      sides, and a triangle is in the stars of its three corners.

   Half-edge h is side h & 3 of triangle h >> 2 and leads from corner h & 3 to the next one. */

#define Py_LIMITED_API 0x030b0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define PI 3.14159265358979323846
#define COINCIDENT 1e-7 /* of the neighbourhood's radius: nearer points are moved away */
#define COLLINEAR 1e-5  /* radians between two directions that are one */
#define SLACK 1e-4      /* of the neighbourhood's radius: so far inside a circle is outside */
#define NOT_DELAUNAY -1e-6 /* weight of an edge that is flipped */
#define MOST_FLIPS 50 /* times the edges; a few per cent of them are usual */
#define LEAF 12 /* points that are not parted any more */

enum { DONE, NO_MEMORY, NO_TRIANGLES, TOO_LARGE };

typedef struct {
    int32_t corner[3];
    int32_t twin[3]; /* half-edge on the other side of each edge */
    double length[3];
    double weight[3]; /* half the cotangent of the angle opposite to each edge */
} Triangle;

typedef struct { /* of a symmetric matrix, each column sorted */
    int32_t *starts, *rows;
    double *values, *mass;
} Matrix;

static int32_t next_of(int32_t h) { return (h & 3) == 2 ? h - 2 : h + 1; }
static int32_t previous_of(int32_t h) { return (h & 3) ? h - 1 : h + 2; }

static double dot(const double *a, const double *b) {
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

static void scale_to_unit(double *v) {
    double r = 1 / sqrt(dot(v, v));
    for (int i = 0; i < 3; i++) v[i] *= r;
}

static void cross(const double *a, const double *b, double *out) {
    out[0] = a[1] * b[2] - a[2] * b[1];
    out[1] = a[2] * b[0] - a[0] * b[2];
    out[2] = a[0] * b[1] - a[1] * b[0];
}

/* Two unit vectors orthogonal to one of any length. */
static void build_axes(const double *along, double *x, double *y) {
    double unit[3] = {along[0], along[1], along[2]};
    scale_to_unit(unit);
    int steep = fabs(unit[0]) > 0.9;
    double test[3] = {!steep, steep, 0};
    cross(test, unit, x);
    scale_to_unit(x);
    cross(unit, x, y);
    scale_to_unit(y);
}

/* Increases with the angle of (x, y) from -pi to pi as atan2 does, and is as fine near zero. */
static double order_of_angle(double x, double y) {
    double size = fabs(x) + fabs(y);
    if (!(size > 0)) return 0;
    return x >= 0 ? y / size : copysign(2, y) - y / size;
}

/* ---- normals: least left singular vector of the neighbours' offsets ---------------------------- */

/* R of a QR decomposition with pivots of k rows of 3, rows of R one after the other; the columns'
   places. Householder reflections; the column with the largest rest comes first. */
static void triangulate(double *a, int k, double r[3][3], int place[3]) {
    double norm[3], exact[3];
    for (int c = 0; c < 3; c++) {
        double sum = 0;
        for (int i = 0; i < k; i++) sum += a[3 * i + c] * a[3 * i + c];
        norm[c] = exact[c] = sqrt(sum);
        place[c] = c;
    }
    for (int s = 0; s < 3; s++) {
        int best = s;
        for (int c = s + 1; c < 3; c++)
            if (norm[c] > norm[best]) best = c;
        if (best != s) {
            for (int i = 0; i < k; i++) {
                double t = a[3 * i + s];
                a[3 * i + s] = a[3 * i + best];
                a[3 * i + best] = t;
            }
            int p = place[s];
            place[s] = place[best], place[best] = p;
            norm[best] = norm[s], exact[best] = exact[s];
        }
        double first = a[3 * s + s], rest = 0, tau = 0, head = first;
        for (int i = s + 1; i < k; i++) rest += a[3 * i + s] * a[3 * i + s];
        if (rest > DBL_MIN) {
            head = first >= 0 ? -sqrt(first * first + rest) : sqrt(first * first + rest);
            for (int i = s + 1; i < k; i++) a[3 * i + s] /= first - head;
            tau = (head - first) / head;
        }
        a[3 * s + s] = head;
        for (int c = s + 1; c < 3; c++) {
            double sum = a[3 * s + c];
            for (int i = s + 1; i < k; i++) sum += a[3 * i + s] * a[3 * i + c];
            sum *= tau;
            a[3 * s + c] -= sum;
            for (int i = s + 1; i < k; i++) a[3 * i + c] -= sum * a[3 * i + s];
            if (norm[c] == 0) continue;
            double share = fabs(a[3 * s + c]) / norm[c];
            share = fmax((1 + share) * (1 - share), 0);
            double ratio = norm[c] / exact[c];
            if (share * ratio * ratio > 1.4901161193847656e-8) {
                norm[c] *= sqrt(share);
                continue;
            }
            double left = 0;
            for (int i = s + 1; i < k; i++) left += a[3 * i + c] * a[3 * i + c];
            norm[c] = exact[c] = sqrt(left);
        }
    }
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) r[i][j] = j >= i ? a[3 * i + j] : 0;
}

/* One two-sided rotation that makes w[p][q] and w[q][p] zero; u takes the left one. */
static void rotate(double w[3][3], double u[3][3], int p, int q) {
    double sum = w[p][p] + w[q][q], skew = w[q][p] - w[p][q], c = 1, s = 0;
    if (fabs(skew) >= DBL_MIN) { /* first make the block symmetric */
        double ratio = sum / skew, size = sqrt(1 + ratio * ratio);
        s = 1 / size, c = ratio / size;
    }
    double pp = c * w[p][p] + s * w[q][p], pq = c * w[p][q] + s * w[q][q];
    double qq = -s * w[p][q] + c * w[q][q], rc = 1, rs = 0;
    if (2 * fabs(pq) >= DBL_MIN) { /* then diagonal */
        double tau = (pp - qq) / (2 * fabs(pq)), root = sqrt(tau * tau + 1);
        double t = tau > 0 ? 1 / (tau + root) : 1 / (tau - root);
        rc = 1 / sqrt(t * t + 1);
        rs = (t > 0 ? -1 : 1) * (pq > 0 ? 1 : -1) * fabs(t) * rc;
    }
    double lc = c * rc + s * rs, ls = s * rc - c * rs;
    for (int i = 0; i < 3; i++) {
        double x = w[p][i], y = w[q][i];
        w[p][i] = lc * x + ls * y, w[q][i] = lc * y - ls * x;
        x = u[i][p], y = u[i][q];
        u[i][p] = lc * x + ls * y, u[i][q] = lc * y - ls * x;
    }
    for (int i = 0; i < 3; i++) {
        double x = w[i][p], y = w[i][q];
        w[i][p] = rc * x - rs * y, w[i][q] = rs * x + rc * y;
    }
}

/* Direction in which k vectors, 3 numbers each, reach least far. They are overwritten. */
static void find_normal(double *offsets, int k, double *normal) {
    double r[3][3], w[3][3], u[3][3] = {{0}}, largest = 0;
    int place[3];
    for (int i = 0; i < 3 * k; i++) largest = fmax(largest, fabs(offsets[i]));
    if (largest == 0) largest = 1;
    for (int i = 0; i < 3 * k; i++) offsets[i] /= largest;
    int wide = k > 3; /* three vectors go as they are: again the sign is the library's */
    if (wide) triangulate(offsets, k, r, place);
    for (int i = 0; i < 3; i++) {
        u[wide ? place[i] : i][i] = 1;
        for (int j = 0; j < 3; j++) w[i][j] = wide ? r[j][i] : offsets[3 * j + i];
    }
    double top = fmax(fabs(w[0][0]), fmax(fabs(w[1][1]), fabs(w[2][2])));
    for (int sweep = 0, done = 0; sweep < 60 && !done; sweep++) {
        done = 1;
        for (int p = 1; p < 3; p++)
            for (int q = 0; q < p; q++) {
                double tiny = fmax(DBL_MIN, 2 * DBL_EPSILON * top);
                if (!(fabs(w[p][q]) > tiny || fabs(w[q][p]) > tiny)) continue;
                done = 0;
                rotate(w, u, p, q);
                top = fmax(top, fmax(fabs(w[p][p]), fabs(w[q][q])));
            }
    }
    int least = 2; /* the last one, where some are equal */
    for (int i = 1; i >= 0; i--)
        if (fabs(w[i][i]) < fabs(w[least][least])) least = i;
    for (int i = 0; i < 3; i++) normal[i] = w[least][least] < 0 ? -u[i][least] : u[i][least];
    scale_to_unit(normal);
}

/* ---- stars -------------------------------------------------------------------------------------- */

typedef struct { /* for k neighbours: k numbers each, 3 k offsets */
    double *x, *y, *norm, *order, *offsets;
    int32_t *turn, *before;
} Room;

/* Neighbours in the tangent plane of a point. */
static void project(const double *points, int32_t own, const int32_t *near, int k, Room *room) {
    const double *p = points + 3 * (size_t)own;
    double centre[3] = {0}, normal[3], x[3], y[3];
    for (int i = 0; i < k; i++)
        for (int c = 0; c < 3; c++) centre[c] += points[3 * (size_t)near[i] + c];
    for (int c = 0; c < 3; c++) centre[c] /= k + 1;
    for (int i = 0; i < k; i++)
        for (int c = 0; c < 3; c++)
            room->offsets[3 * i + c] = points[3 * (size_t)near[i] + c] - centre[c];
    find_normal(room->offsets, k, normal);
    build_axes(normal, x, y);
    for (int i = 0; i < k; i++) {
        double v[3];
        for (int c = 0; c < 3; c++) v[c] = points[3 * (size_t)near[i] + c] - p[c];
        double height = dot(normal, v);
        for (int c = 0; c < 3; c++) v[c] -= normal[c] * height;
        room->x[i] = dot(x, v), room->y[i] = dot(y, v);
    }
}

/* Move neighbours off the point itself, each in its own direction if need be. */
static void part(Room *room, int k, double radius) {
    for (int i = 0; i < k; i++) {
        room->norm[i] = sqrt(room->x[i] * room->x[i] + room->y[i] * room->y[i]);
        if (room->norm[i] < radius * COINCIDENT) {
            double r = 1 / room->norm[i], x = room->x[i] * r, y = room->y[i] * r;
            if (!isfinite(x) || !isfinite(y)) {
                double angle = 2 * PI * i / k;
                x = cos(angle), y = sin(angle);
            }
            double size = (1 + (double)i / k) * radius * COINCIDENT * 10;
            room->x[i] = size * x, room->y[i] = size * y;
            room->norm[i] = sqrt(room->x[i] * room->x[i] + room->y[i] * room->y[i]);
        }
    }
}

/* Neighbours by angle, from the end of a gap of half a turn if there is one (then 1 is returned),
   else from the nearest. As in the library, a gap about the direction of minus x is no gap. */
static int sort_by_angle(Room *room, int k) {
    double *order = room->order, widest = PI - COLLINEAR;
    int32_t *turn = room->turn;
    const double *x = room->x, *y = room->y;
    int first = -1, nearest = 0;
    for (int i = 0; i < k; i++) {
        double key = order_of_angle(x[i], y[i]);
        int j = i;
        for (; j > 0 && order[j - 1] > key; j--) order[j] = order[j - 1], turn[j] = turn[j - 1];
        order[j] = key, turn[j] = i;
        if (room->norm[i] < room->norm[nearest]) nearest = i;
    }
    for (int i = 0; i + 1 < k; i++) {
        int32_t a = turn[i], b = turn[i + 1];
        double sine = x[a] * y[b] - y[a] * x[b], cosine = x[a] * x[b] + y[a] * y[b];
        if (sine > 2 * COLLINEAR * room->norm[a] * room->norm[b] || (sine >= 0 && cosine > 0)) continue;
        double gap = atan2(y[b], x[b]) - atan2(y[a], x[a]);
        if (gap > widest) widest = gap, first = i + 1;
    }
    int open = first >= 0;
    for (int i = 0; !open; i++)
        if (turn[i] == nearest) {
            first = i;
            break;
        }
    memcpy(room->before, turn, k * sizeof(int32_t));
    for (int i = 0; i < k; i++) turn[i] = room->before[(first + i) % k];
    return open;
}

/* Whether the circle through the point and two neighbours has no other in it. */
static int is_empty(const Room *room, int k, int32_t a, int32_t b, double radius) {
    const double *x = room->x, *y = room->y;
    double ra = 1 / room->norm[a], rb = 1 / room->norm[b];
    double ax = x[a] * ra, ay = y[a] * ra, bx = x[b] * rb, by = y[b] * rb;
    if (fabs(ax * by - ay * bx) < COLLINEAR) return 0;
    /* where the perpendicular bisectors meet */
    double vx = 0.5 * x[a] - 0.5 * x[b], vy = 0.5 * y[a] - 0.5 * y[b];
    double along = (by * vy + bx * vx) / (bx * ay - by * ax);
    double cx = 0.5 * x[a] - along * ay, cy = 0.5 * y[a] + along * ax;
    double size = sqrt(cx * cx + cy * cy), inside = size - radius * SLACK, least = INFINITY;
    inside *= inside;
    for (int i = 0; i < k; i++) {
        if (i == a || i == b) continue;
        double dx = cx - x[i], dy = cy - y[i], square = dx * dx + dy * dy;
        if (square < least) {
            least = square;
            if (least < inside) break;
        }
    }
    return sqrt(least) + radius * SLACK > size;
}

/* Triangles at a point, three corners each; returns how many, at most k. */
static int build_star(
    const double *points, int32_t own, const int32_t *near, int k, Room *room, int32_t *out) {
    project(points, own, near, k, room);
    double radius = sqrt(room->x[k - 1] * room->x[k - 1] + room->y[k - 1] * room->y[k - 1]);
    if (!isfinite(radius) || radius <= 0) return 0;
    part(room, k, radius);
    int end = k + !sort_by_angle(room, k), found = 0;
    for (int from = 0; from < k;) {
        int to = from + 1;
        while (to < end && !is_empty(room, k, room->turn[from], room->turn[to % k], radius)) to++;
        if (to >= end) {
            from++;
            continue;
        }
        out[3 * found] = own;
        out[3 * found + 1] = near[room->turn[from]];
        out[3 * found++ + 2] = near[room->turn[to % k]];
        from = to;
    }
    return found;
}

/* Corners of the triangles of all stars; NULL without memory. */
static int32_t *build_stars(
    const double *points, int32_t n, const int32_t *near, int k, int64_t *count) {
    int64_t full = 7 * (int64_t)n + k;
    int32_t *corners = malloc(full * 3 * sizeof(int32_t));
    double *numbers = malloc((size_t)k * 7 * sizeof(double));
    int32_t *turn = malloc((size_t)k * 2 * sizeof(int32_t));
    int64_t found = 0;
    int ok = corners && numbers && turn;
    if (ok) {
        Room room = {numbers, numbers + k, numbers + 2 * (size_t)k, numbers + 3 * (size_t)k,
                     numbers + 4 * (size_t)k, turn, turn + k};
        for (int32_t i = 0; i < n && ok; i++) {
            if (found + k > full) {
                full += full / 4 + k;
                int32_t *more = realloc(corners, full * 3 * sizeof(int32_t));
                ok = more != NULL;
                if (!ok) break;
                corners = more;
            }
            found += build_star(points, i, near + (size_t)i * k, k, &room, corners + 3 * found);
        }
    }
    free(numbers), free(turn);
    if (!ok) {
        free(corners);
        return NULL;
    }
    *count = found;
    return corners;
}

/* ---- cover -------------------------------------------------------------------------------------- */

/* Stable order of half-edges 3 f + c of the stars' triangles by their lesser, then greater corner. */
static int32_t *sort_edges(const int32_t *corners, int64_t count, int32_t n) {
    int64_t m = 3 * count;
    int32_t *order = malloc(m * sizeof(int32_t)), *before = malloc(m * sizeof(int32_t));
    int64_t *starts = malloc(((size_t)n + 1) * sizeof(int64_t));
    if (order && before && starts)
        for (int pass = 0; pass < 2; pass++) {
            memset(starts, 0, ((size_t)n + 1) * sizeof(int64_t));
            for (int fill = 0; fill < 2; fill++) {
                for (int64_t i = 0; i < m; i++) {
                    int32_t h = pass && fill ? before[i] : (int32_t)i;
                    int32_t a = corners[h], b = corners[h % 3 == 2 ? h - 2 : h + 1];
                    int32_t key = (a < b) == pass ? a : b;
                    if (!fill) starts[key + 1]++;
                    else (pass ? order : before)[starts[key]++] = h;
                }
                for (int32_t i = 0; !fill && i < n; i++) starts[i + 1] += starts[i];
            }
        }
    else {
        free(order);
        order = NULL;
    }
    free(before), free(starts);
    return order;
}

typedef struct {
    double angle;
    int32_t side; /* the half-edge that faces the next one; */
    int32_t back; /* the one that faces the one before */
} Leaf;

/* Glue the sides of the m triangles at one edge, in the order of their angles around it. */
static void glue(const double *points, const int32_t *corners, int64_t count, const int32_t *edge,
                 int m, Leaf *leaves, Triangle *cover) {
    int32_t from = corners[edge[0]];
    int32_t to = corners[edge[0] % 3 == 2 ? edge[0] - 2 : edge[0] + 1];
    const double *p = points + 3 * (size_t)from, *q = points + 3 * (size_t)to;
    double along[3] = {q[0] - p[0], q[1] - p[1], q[2] - p[2]}, x[3], y[3];
    double length = sqrt(dot(along, along));
    if (m > 2) build_axes(along, x, y); /* one order only, of one or two */
    for (int i = 0; i < m; i++) {
        int32_t h = edge[i ? m - i : 0], f = h / 3, c = h % 3;
        int32_t front = 4 * f + c, back = (int32_t)(4 * (count + f) + 2 - c);
        Leaf leaf = {0, front, back};
        if (corners[h] == from) leaf.side = back, leaf.back = front;
        cover[f].length[c] = cover[count + f].length[2 - c] = length;
        if (m > 2) {
            const double *o = points + 3 * (size_t)corners[c ? h - 1 : h + 2];
            double out[3] = {o[0] - p[0], o[1] - p[1], o[2] - p[2]};
            scale_to_unit(out);
            leaf.angle = order_of_angle(dot(x, out), dot(y, out));
        }
        int j = i;
        for (; j > 0 && leaves[j - 1].angle < leaf.angle; j--) leaves[j] = leaves[j - 1];
        leaves[j] = leaf;
    }
    for (int i = 0; i < m; i++) {
        int32_t a = leaves[i].side, b = leaves[i + 1 < m ? i + 1 : 0].back;
        cover[a >> 2].twin[a & 3] = b;
        cover[b >> 2].twin[b & 3] = a;
    }
}

/* Closed surface of both sides of all triangles, its lengths mollified; NULL without memory. */
static Triangle *build_cover(
    const double *points, int32_t n, const int32_t *corners, int64_t count, double factor) {
    int32_t *order = sort_edges(corners, count, n);
    Triangle *cover = order ? malloc(2 * count * sizeof(Triangle)) : NULL;
    int64_t room = 64, edges = 0;
    Leaf *leaves = cover ? malloc(room * sizeof(Leaf)) : NULL;
    double sum = 0, longer = 0;
    for (int64_t first = 0, last; leaves && first < 3 * count; first = last) {
        int32_t h = order[first], a = corners[h], b = corners[h % 3 == 2 ? h - 2 : h + 1];
        for (last = first + 1; last < 3 * count; last++) {
            int32_t g = order[last], c = corners[g], d = corners[g % 3 == 2 ? g - 2 : g + 1];
            if (!((a == c && b == d) || (a == d && b == c))) break;
        }
        if (last - first > room) {
            room = 2 * (last - first);
            free(leaves);
            leaves = malloc(room * sizeof(Leaf));
            if (!leaves) break;
        }
        glue(points, corners, count, order + first, (int)(last - first), leaves, cover);
        sum += cover[h / 3].length[h % 3];
        edges++;
    }
    free(order);
    if (!leaves) {
        free(cover);
        return NULL;
    }
    free(leaves);
    for (int64_t f = 0; f < count; f++) {
        const double *l = cover[f].length;
        double least = fmin(l[0] + l[1] - l[2], fmin(l[1] + l[2] - l[0], l[2] + l[0] - l[1]));
        longer = fmax(longer, sum / edges * factor - least);
    }
    for (int64_t f = 0; f < 2 * count; f++) {
        const int32_t *from = corners + 3 * (f % count);
        for (int c = 0; c < 3; c++) {
            cover[f].corner[c] = from[f < count ? c : (3 - c) % 3];
            cover[f].length[c] += longer;
        }
    }
    return cover;
}

/* ---- flips -------------------------------------------------------------------------------------- */

static double area_of(double a, double b, double c) {
    double s = (a + b + c) / 2;
    return sqrt(fmax(0, s * (s - a) * (s - b) * (s - c)));
}

static void weigh(Triangle *t) {
    const double *l = t->length;
    double area = area_of(l[0], l[1], l[2]), a = l[0] * l[0], b = l[1] * l[1], c = l[2] * l[2];
    t->weight[0] = (b + c - a) / (4 * area) / 2;
    t->weight[1] = (c + a - b) / (4 * area) / 2;
    t->weight[2] = (a + b - c) / (4 * area) / 2;
}

/* Third corner of a triangle over (0, 0) and (base, 0), at given distances from these two. */
static void lay_out(double base, double from_first, double from_last, double *x, double *y) {
    *x = (base * base - from_last * from_last + from_first * from_first) / (2 * base);
    *y = 2 * area_of(base, from_last, from_first) / base;
}

/* Flip one edge if it is not Delaunay. Afterwards h and its twin are still the two sides of it. */
static int flip(Triangle *cover, int32_t h) {
    Triangle *a = cover + (h >> 2);
    int32_t g = a->twin[h & 3];
    Triangle *b = cover + (g >> 2);
    if (!(a->weight[h & 3] + b->weight[g & 3] < NOT_DELAUNAY) || a == b) return 0;
    int32_t old[4] = {next_of(h), previous_of(h), next_of(g), previous_of(g)};
    int32_t new[4] = {previous_of(h), next_of(g), previous_of(g), next_of(h)};
    int32_t corner[4], twin[4];
    double length[4];
    for (int i = 0; i < 4; i++) {
        const Triangle *t = cover + (old[i] >> 2);
        corner[i] = t->corner[old[i] & 3];
        length[i] = t->length[old[i] & 3];
        twin[i] = t->twin[old[i] & 3];
    }
    /* the two other corners, over the old edge and under it */
    double base = a->length[h & 3], x, y, u, v;
    lay_out(base, length[1], length[0], &x, &y);
    lay_out(base, length[2], length[3], &u, &v);
    double across = sqrt((x - u) * (x - u) + (y + v) * (y + v));
    if (!isfinite(across)) return 0;
    for (int i = 0; i < 4; i++) { /* where a twin is one of the four, it moves too */
        Triangle *t = cover + (new[i] >> 2);
        int32_t other = twin[i];
        for (int j = 0; j < 4; j++)
            if (twin[i] == old[j]) other = new[j];
        t->corner[new[i] & 3] = corner[i];
        t->length[new[i] & 3] = length[i];
        t->twin[new[i] & 3] = other;
        if (other == twin[i]) cover[other >> 2].twin[other & 3] = new[i];
    }
    a->corner[h & 3] = corner[1], b->corner[g & 3] = corner[3];
    a->length[h & 3] = b->length[g & 3] = across;
    weigh(a), weigh(b);
    return 1;
}

/* Flip until all edges are Delaunay; 0 without memory. */
static int flip_all(Triangle *cover, int64_t count) {
    int64_t room = 1024, left = MOST_FLIPS * 3 * count;
    int32_t *stack = malloc(room * sizeof(int32_t));
    for (int64_t t = 0; t < count; t++) weigh(cover + t);
    for (int64_t first = 0; stack && first < 4 * count; first++) {
        if ((first & 3) == 3) continue;
        int64_t size = 1;
        stack[0] = (int32_t)first;
        while (size && left > 0) {
            int32_t h = stack[--size], g = cover[h >> 2].twin[h & 3];
            if (!flip(cover, h)) continue;
            left--;
            if (size + 4 > room) {
                room *= 2;
                int32_t *more = realloc(stack, room * sizeof(int32_t));
                if (!more) free(stack);
                stack = more;
                if (!stack) break;
            }
            stack[size++] = next_of(h), stack[size++] = previous_of(h);
            stack[size++] = next_of(g), stack[size++] = previous_of(g);
        }
    }
    int ok = stack != NULL;
    free(stack);
    return ok;
}

/* ---- matrix ------------------------------------------------------------------------------------- */

static void drop(Matrix *m) {
    free(m->starts), free(m->rows), free(m->values), free(m->mass);
}

/* Weights of the edges by their lesser corner, each other corner once; returns 0 without memory. */
static int gather(const Triangle *cover, int64_t count, int32_t n, int64_t *starts, int64_t *ends,
                  int32_t *others, double *weights) {
    int32_t *seen = malloc((size_t)n * sizeof(int32_t));
    int64_t *place = malloc((size_t)n * sizeof(int64_t));
    int ok = seen && place;
    for (int fill = 0; ok && fill < 2; fill++) {
        for (int64_t t = 0; t < count; t++)
            for (int c = 0; c < 3; c++) {
                int32_t h = (int32_t)(4 * t + c), g = cover[t].twin[c];
                int32_t a = cover[t].corner[c], b = cover[t].corner[c == 2 ? 0 : c + 1];
                if (h > g || a == b) continue;
                int32_t least = a < b ? a : b;
                if (!fill) {
                    starts[least + 1]++;
                    continue;
                }
                others[ends[least]] = a < b ? b : a;
                weights[ends[least]++] = cover[t].weight[c] + cover[g >> 2].weight[g & 3];
            }
        for (int32_t i = 0; !fill && i < n; i++) ends[i] = starts[i], starts[i + 1] += starts[i];
    }
    if (ok) memset(seen, 255, (size_t)n * sizeof(int32_t));
    for (int32_t i = 0; ok && i < n; i++) {
        int64_t first = starts[i], end = first;
        for (int64_t e = first; e < ends[i]; e++) {
            int32_t j = others[e];
            if (seen[j] == i) {
                weights[place[j]] += weights[e];
                continue;
            }
            seen[j] = i, place[j] = end;
            others[end] = j, weights[end++] = weights[e];
        }
        ends[i] = end;
        for (int64_t e = first + 1; e < end; e++) { /* sort these few */
            int32_t j = others[e];
            double w = weights[e];
            int64_t f = e;
            for (; f > first && others[f - 1] > j; f--)
                others[f] = others[f - 1], weights[f] = weights[f - 1];
            others[f] = j, weights[f] = w;
        }
    }
    free(seen), free(place);
    return ok;
}

/* Both halves of the matrix and its diagonal from one half. Row i of column j < i is written before
   column i gets its diagonal, so all columns come out sorted. */
static int spread(const int64_t *starts, const int64_t *ends, const int32_t *others,
                  const double *weights, int32_t n, Matrix *m) {
    int32_t *next = malloc(((size_t)n + 1) * sizeof(int32_t));
    m->starts = calloc((size_t)n + 1, sizeof(int32_t));
    if (!next || !m->starts) {
        free(next);
        return 0;
    }
    for (int32_t i = 0; i < n; i++) {
        m->starts[i + 1] += (int32_t)(1 + ends[i] - starts[i]);
        for (int64_t e = starts[i]; e < ends[i]; e++) m->starts[others[e] + 1]++;
    }
    for (int32_t i = 0; i < n; i++) m->starts[i + 1] += m->starts[i], next[i] = m->starts[i];
    m->rows = malloc((size_t)m->starts[n] * sizeof(int32_t));
    m->values = malloc((size_t)m->starts[n] * sizeof(double));
    if (!m->rows || !m->values) {
        free(next);
        return 0;
    }
    for (int32_t i = 0; i < n; i++) {
        double sum = 0;
        int32_t middle = next[i]++;
        for (int32_t e = m->starts[i]; e < middle; e++) sum -= m->values[e];
        for (int64_t e = starts[i]; e < ends[i]; e++) {
            int32_t j = others[e];
            double w = weights[e] / 6;
            m->rows[next[i]] = j, m->values[next[i]++] = -w;
            m->rows[next[j]] = i, m->values[next[j]++] = -w;
            sum += w;
        }
        m->rows[middle] = i, m->values[middle] = sum;
    }
    free(next);
    return 1;
}

/* Weak Laplacian and lumped mass from the cover; 0 without memory. Points without a triangle get a
   diagonal of 1 and a thousandth of the least mass, as the library gives them. */
static int assemble(const Triangle *cover, int64_t count, int32_t n, Matrix *m) {
    int64_t half = 3 * count / 2;
    int64_t *starts = calloc((size_t)n + 1, sizeof(int64_t)), *ends = malloc((size_t)n * 8);
    int32_t *others = malloc((size_t)half * sizeof(int32_t));
    double *weights = malloc((size_t)half * sizeof(double)), least = INFINITY;
    m->mass = calloc((size_t)n, sizeof(double));
    int ok = starts && ends && others && weights && m->mass &&
             gather(cover, count, n, starts, ends, others, weights) &&
             spread(starts, ends, others, weights, n, m);
    free(starts), free(ends), free(others), free(weights);
    if (!ok) return 0;
    for (int64_t t = 0; t < count; t++) {
        const Triangle *f = cover + t;
        double area = area_of(f->length[0], f->length[1], f->length[2]);
        for (int c = 0; c < 3; c++) m->mass[f->corner[c]] += area / 18;
    }
    char *used = calloc((size_t)n, 1);
    if (!used) return 0;
    for (int64_t t = 0; t < count; t++)
        for (int c = 0; c < 3; c++) used[cover[t].corner[c]] = 1;
    for (int32_t i = 0; i < n; i++)
        if (used[i]) least = fmin(least, m->mass[i]);
    for (int32_t i = 0; i < n; i++)
        if (!used[i]) m->mass[i] = 1e-3 * least, m->values[m->starts[i]] = 1;
    free(used);
    return 1;
}

static int build(const double *points, int32_t n, const int32_t *near, int k, double factor,
                 Matrix *m) {
    int64_t count = 0;
    int32_t *corners = build_stars(points, n, near, k, &count);
    if (!corners) return NO_MEMORY;
    if (!count || count > INT32_MAX / 8) {
        free(corners);
        return count ? TOO_LARGE : NO_TRIANGLES;
    }
    Triangle *cover = build_cover(points, n, corners, count, factor);
    free(corners);
    int ok = cover && flip_all(cover, 2 * count) && assemble(cover, 2 * count, n, m);
    free(cover);
    return ok ? DONE : NO_MEMORY;
}

/* ---- solutions ---------------------------------------------------------------------------------- */

typedef struct { /* columns of a triangular matrix without its diagonal, and one over that */
    const int32_t *starts, *rows;
    const double *values, *scale;
} Factor;

/* One step of a solution for some columns side by side, in place: x[j] becomes
   (x[j] - sum of values * x[rows] in column j) * scale[j], upwards or downwards. The compiler makes
   one loop for each width; several sums of one column keep it from waiting for each. */
static inline void substitute(const Factor *f, int32_t n, int upwards, double *x, int width) {
    for (int32_t i = 0; i < n; i++) {
        int32_t j = upwards ? i : n - 1 - i, e = f->starts[j], end = f->starts[j + 1];
        double *own = x + (size_t)j * width, sum[8] = {0};
        if (width == 1) {
            for (; e + 3 < end; e += 4)
                for (int q = 0; q < 4; q++) sum[q] += f->values[e + q] * x[f->rows[e + q]];
            for (; e < end; e++) sum[0] += f->values[e] * x[f->rows[e]];
            sum[0] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
        }
        for (; e < end; e++) {
            const double *other = x + (size_t)f->rows[e] * width, v = f->values[e];
            for (int q = 0; q < width; q++) sum[q] += v * other[q];
        }
        for (int q = 0; q < width; q++) own[q] = (own[q] - sum[q]) * f->scale[j];
    }
}

/* A x = b for all columns of b (n, columns), eight at a time and then one by one. A is symmetric,
   row and column i of it are row and column place[i] of L U, and so A = U' L' too: both steps are
   sums along columns. */
static int solve_all(const Factor *upper, const Factor *lower, const int32_t *place, int32_t n,
                     double *b, int64_t columns) {
    double *x = malloc((size_t)n * 8 * sizeof(double));
    if (!x) return NO_MEMORY;
    for (int64_t first = 0, width; first < columns; first += width) {
        width = columns - first < 8 ? 1 : 8;
        for (int32_t i = 0; i < n; i++)
            memcpy(x + place[i] * width, b + i * columns + first, width * sizeof(double));
        for (int step = 0; step < 2; step++)
            if (width == 8) substitute(step ? lower : upper, n, !step, x, 8);
            else substitute(step ? lower : upper, n, !step, x, 1);
        for (int32_t i = 0; i < n; i++)
            memcpy(b + i * columns + first, x + place[i] * width, width * sizeof(double));
    }
    free(x);
    return DONE;
}

/* ---- nearest points ----------------------------------------------------------------------------- */

typedef struct {
    double at[3];
    int32_t row;
} Place;

typedef struct {
    double at;
    int32_t axis; /* -1: a leaf */
} Split;

typedef struct {
    Place *places; /* of each node one run, of the first child the first half of it */
    Split *splits; /* the children of node i are 2 i + 1 and 2 i + 2 */
} Tree;

typedef struct { /* the nearest so far, sorted by distance, equal ones by row */
    const double *at;
    double *squared;
    int32_t *rows;
    int k, found;
} Query;

/* Put the places in such an order that those before number `middle` are no greater along the axis,
   and those from there on no less. */
static void halve(Place *places, int64_t count, int64_t middle, int axis) {
    int64_t low = 0, high = count - 1;
    while (low < high) {
        double pivot = places[low + (high - low) / 2].at[axis];
        int64_t i = low, j = high;
        while (i <= j) {
            while (places[i].at[axis] < pivot) i++;
            while (places[j].at[axis] > pivot) j--;
            if (i > j) break;
            Place other = places[i];
            places[i++] = places[j];
            places[j--] = other;
        }
        if (middle <= j) high = j;
        else if (middle >= i) low = i;
        else return;
    }
}

static void plant(Tree *tree, int64_t node, Place *places, int64_t count) {
    if (count <= LEAF) {
        tree->splits[node].axis = -1;
        return;
    }
    double widest = -1;
    int axis = 0;
    for (int a = 0; a < 3; a++) {
        double low = places[0].at[a], high = low;
        for (int64_t i = 1; i < count; i++) {
            if (places[i].at[a] < low) low = places[i].at[a];
            if (places[i].at[a] > high) high = places[i].at[a];
        }
        if (high - low > widest) widest = high - low, axis = a;
    }
    int64_t middle = count / 2;
    halve(places, count, middle, axis);
    tree->splits[node] = (Split){places[middle].at[axis], axis};
    plant(tree, 2 * node + 1, places, middle);
    plant(tree, 2 * node + 2, places + middle, count - middle);
}

static double squared_length(const double *v) { return v[0] * v[0] + v[1] * v[1] + v[2] * v[2]; }

static void look_at(Query *q, const Place *place) {
    double offset[3];
    for (int a = 0; a < 3; a++) offset[a] = place->at[a] - q->at[a];
    double squared = squared_length(offset);
    int i = q->found;
    if (i == q->k) {
        i--;
        if (squared > q->squared[i] || (squared == q->squared[i] && place->row > q->rows[i])) return;
    } else {
        q->found++;
    }
    for (; i && (squared < q->squared[i - 1] ||
                 (squared == q->squared[i - 1] && place->row < q->rows[i - 1]));
         i--) {
        q->squared[i] = q->squared[i - 1];
        q->rows[i] = q->rows[i - 1];
    }
    q->squared[i] = squared;
    q->rows[i] = place->row;
}

/* Look through a node that is `offset` away along each axis. These lengths are rounded as those of
   the places in it are, so no place is passed over that is as near as another that is found. */
static void look_through(const Tree *tree, int64_t node, const Place *places, int64_t count,
                         double *offset, Query *q) {
    Split split = tree->splits[node];
    if (split.axis < 0) {
        for (int64_t i = 0; i < count; i++) look_at(q, places + i);
        return;
    }
    double away = split.at - q->at[split.axis], before = offset[split.axis];
    int64_t first = count / 2, second = count - first;
    int upper = away <= 0; /* the query lies in the second half */
    if (upper) look_through(tree, 2 * node + 2, places + first, second, offset, q);
    else look_through(tree, 2 * node + 1, places, first, offset, q);
    offset[split.axis] = away;
    if (q->found < q->k || squared_length(offset) <= q->squared[q->k - 1]) {
        if (upper) look_through(tree, 2 * node + 1, places, first, offset, q);
        else look_through(tree, 2 * node + 2, places + first, second, offset, q);
    }
    offset[split.axis] = before;
}

/* Rows of the k nearest of n points for each query. */
static int find_nearest(const double *points, int32_t n, const double *queries, int64_t count, int k,
                        int32_t *rows) {
    int64_t nodes = 1;
    while (nodes * LEAF < n) nodes *= 2;
    Tree tree = {malloc(n * sizeof(Place)), malloc(2 * nodes * sizeof(Split))};
    double *squared = malloc(k * sizeof(double));
    int ok = tree.places && tree.splits && squared;
    if (ok) {
        for (int32_t i = 0; i < n; i++) {
            memcpy(tree.places[i].at, points + 3 * (size_t)i, 3 * sizeof(double));
            tree.places[i].row = i;
        }
        plant(&tree, 0, tree.places, n);
        for (int64_t i = 0; i < count; i++) {
            Query q = {queries + 3 * i, squared, rows + i * k, k, 0};
            double offset[3] = {0};
            look_through(&tree, 0, tree.places, n, offset, &q);
        }
    }
    free(tree.places);
    free(tree.splits);
    free(squared);
    return ok ? DONE : NO_MEMORY;
}

/* ---- Python ------------------------------------------------------------------------------------- */

/* Buffers of some contiguous arrays, the last of them to be written to if asked; 0 on failure. */
static int open_all(PyObject **given, Py_buffer *opened, int count, int write_last) {
    for (int i = 0; i < count; i++) {
        int flags = PyBUF_C_CONTIGUOUS | (write_last && i == count - 1 ? PyBUF_WRITABLE : 0);
        if (!PyObject_GetBuffer(given[i], opened + i, flags)) continue;
        while (i--) PyBuffer_Release(opened + i);
        return 0;
    }
    return 1;
}

static void close_all(Py_buffer *opened, int count) {
    for (int i = 0; i < count; i++) PyBuffer_Release(opened + i);
}

static int all_within(const int32_t *numbers, Py_ssize_t count, Py_ssize_t end) {
    for (Py_ssize_t i = 0; i < count; i++)
        if (numbers[i] < 0 || numbers[i] >= end) return 0;
    return 1;
}

static int are_neighbours(const int32_t *near, Py_ssize_t n, Py_ssize_t k) {
    for (Py_ssize_t i = 0; i < n * k; i++)
        if (near[i] == i / k) return 0;
    return all_within(near, n * k, n);
}

static PyObject *point_cloud_laplacian(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *given[2], *result = NULL;
    double factor;
    Py_buffer buffers[2], *points = buffers, *near = buffers + 1;
    Matrix m = {0};
    if (!PyArg_ParseTuple(args, "OOd", given, given + 1, &factor)) return NULL;
    if (!open_all(given, buffers, 2, 0)) return NULL;
    Py_ssize_t n = points->len / 24, k = n ? near->len / 4 / n : 0;
    int state;
    if (n < 1 || n > INT32_MAX - 1 || k < 3 || k >= n || points->len != 24 * n ||
        near->len != 4 * n * k || !are_neighbours(near->buf, n, k)) {
        PyErr_SetString(PyExc_ValueError, "expected 3 or more other points as neighbours of each");
    } else {
        Py_BEGIN_ALLOW_THREADS;
        state = build(points->buf, (int32_t)n, near->buf, (int)k, factor, &m);
        Py_END_ALLOW_THREADS;
        if (state == NO_MEMORY) PyErr_NoMemory();
        else if (state == NO_TRIANGLES) PyErr_SetString(PyExc_ValueError, "no triangles");
        else if (state == TOO_LARGE) PyErr_SetString(PyExc_ValueError, "too many points");
        else
            result = Py_BuildValue(
                "y#y#y#y#", (char *)m.starts, 4 * (n + 1), (char *)m.rows,
                4 * (Py_ssize_t)m.starts[n], (char *)m.values, 8 * (Py_ssize_t)m.starts[n],
                (char *)m.mass, 8 * n);
    }
    drop(&m);
    close_all(buffers, 2);
    return result;
}

/* Starts, rows, values and scale of a triangular matrix of n columns. */
static int read_factor(const Py_buffer *b, Py_ssize_t n, Factor *f) {
    Py_ssize_t entries = b[1].len / 4;
    *f = (Factor){b[0].buf, b[1].buf, b[2].buf, b[3].buf};
    return b[0].len == 4 * (n + 1) && b[2].len == 8 * entries && b[3].len == 8 * n &&
           f->starts[0] == 0 && f->starts[n] == entries;
}

static PyObject *solve(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *given[10];
    Py_buffer b[10];
    Factor upper, lower;
    if (!PyArg_ParseTuple(args, "(OOOO)(OOOO)OO", given, given + 1, given + 2, given + 3, given + 4,
                          given + 5, given + 6, given + 7, given + 8, given + 9))
        return NULL;
    if (!open_all(given, b, 10, 1)) return NULL;
    Py_ssize_t n = b[8].len / 4, columns = n ? b[9].len / 8 / n : 0;
    int sound = n > 0 && n < INT32_MAX && b[9].len == 8 * n * columns &&
                read_factor(b, n, &upper) && read_factor(b + 4, n, &lower);
    int state = DONE;
    if (!sound) PyErr_SetString(PyExc_ValueError, "expected a factor and right-hand sides of its size");
    else {
        Py_BEGIN_ALLOW_THREADS;
        state = solve_all(&upper, &lower, b[8].buf, (int32_t)n, b[9].buf, columns);
        Py_END_ALLOW_THREADS;
    }
    close_all(b, 10);
    if (state == NO_MEMORY) return PyErr_NoMemory();
    return sound ? Py_BuildValue("") : NULL;
}

static int all_finite(const double *numbers, Py_ssize_t count) {
    for (Py_ssize_t i = 0; i < count; i++)
        if (!isfinite(numbers[i])) return 0;
    return 1;
}

static PyObject *nearest(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *given[3];
    Py_buffer b[3];
    int state = DONE;
    if (!PyArg_ParseTuple(args, "OOO", given, given + 1, given + 2)) return NULL;
    if (!open_all(given, b, 3, 1)) return NULL;
    Py_ssize_t n = b[0].len / 24, count = b[1].len / 24, k = count ? b[2].len / 4 / count : 1;
    int sound = b[0].len == 24 * n && b[1].len == 24 * count && b[2].len == 4 * k * count &&
                k > 0 && k <= n && n < INT32_MAX && all_finite(b[0].buf, 3 * n) &&
                all_finite(b[1].buf, 3 * count);
    if (!sound) PyErr_SetString(PyExc_ValueError, "expected finite points, at least as many as are sought");
    else {
        Py_BEGIN_ALLOW_THREADS;
        state = find_nearest(b[0].buf, (int32_t)n, b[1].buf, count, (int)k, b[2].buf);
        Py_END_ALLOW_THREADS;
    }
    close_all(b, 3);
    if (state == NO_MEMORY) return PyErr_NoMemory();
    return sound ? Py_BuildValue("") : NULL;
}

static PyMethodDef methods[] = {
    {"nearest", nearest, METH_VARARGS,
     "Points (n 3, float64), queries (q 3, float64), and an array (q k, int32) that becomes the rows of\n"
     "the k points nearest to each query, nearest first, the lower row first among equals."},
    {"point_cloud_laplacian", point_cloud_laplacian, METH_VARARGS,
     "Points (n 3, float64), other points near each (n k, int32), mollification as a share of the\n"
     "mean length -> starts, rows, values of the weak Laplacian's columns, lumped mass: bytes."},
    {"solve", solve, METH_VARARGS,
     "Upper and lower factor, each: starts, rows (int32), values of its columns without the diagonal,\n"
     "one over the diagonal (n); where each row of b is in them (n, int32); b (n c), which becomes\n"
     "the solution. What the arrays hold is not checked."},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT, .m_name = "_native", .m_size = 0, .m_methods = methods};

PyMODINIT_FUNC PyInit__native(void) { return PyModuleDef_Init(&definition); }
