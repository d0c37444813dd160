/* quant_piece_tmpl.h: two panels times many activation rows, piece after piece; the part of matmul_quant_tmpl.h that a set with
 * QUANT_UNPACKS takes. */
// SPDX-License-Identifier: Apache-2.0

/* A group of two panels as tiles of many rows use it. */
struct quant_group {
    _Alignas(64) char quads[2][QUANT_COLUMNS *
                               PANEL_ROWS]; /* [quad][row][4], as the set multiplies them */
    float d[2][2][PANEL_ROWS];              /* of both panels: for each half, or one for both */
    float m[2][2][PANEL_ROWS];
};

/* The lines of two panels that the next piece is made of, asked for while this one is multiplied: unpacking takes too
 * little time to wait for memory behind it. */
struct quant_next {
    const char *w;      /* the first panel of this piece */
    size_t at;          /* from there, the next line */
    size_t end;         /* and where they end */
    size_t panel_bytes; /* the other panel's line lies so much further on */
    uint32_t a_group;   /* so many each time a group is multiplied */
};

QUANT_INLINE void quant_prefetch_next(struct quant_next *next)
{
    for (uint32_t i = 0; i < next->a_group && next->at < next->end; i++, next->at += 64) {
        prefetch_line_far(next->w, next->at);
        prefetch_line_far(next->w, next->at + next->panel_bytes);
    }
}

QUANT_INLINE void quant_unpack(const enum weight_type type, const struct quant_tile *t,
                               uint32_t first, uint32_t n, struct quant_group *ret);
QUANT_INLINE void quant_piece_tile(const enum weight_type type, const int rows,
                                   const struct quant_tile *t, uint32_t first, uint32_t n,
                                   const struct quant_group *piece, struct quant_next *next);

#define QUANT_PIECE_CASE(r)                                                                        \
    case r:                                                                                        \
        if (r <= ROWS_TWO)                                                                         \
            quant_piece_tile(type, r, t, first, n, piece, next);                                   \
        break;

_Static_assert(ROWS_TWO >= 4 && UNPACK_ROWS > 2 * ROWS_TWO,
               "nearly equal tiles of UNPACK_ROWS rows or more have three at least");

QUANT_INLINE void quant_piece_tile_of(const enum weight_type type, uint32_t rows,
                                      const struct quant_tile *t, uint32_t first, uint32_t n,
                                      const struct quant_group *piece, struct quant_next *next)
{
    switch (rows) {
        QUANT_PIECE_CASE(3)
        QUANT_PIECE_CASE(4)
        QUANT_PIECE_CASE(5)
        QUANT_PIECE_CASE(6)
    default:
        break;
    }
}

/* What comes after groups [first, first + n): the same panels' next ones, or the first ones of the panels behind. */
QUANT_INLINE struct quant_next quant_next_piece(const enum weight_type type,
                                                const struct quant_tile *t, uint32_t first,
                                                uint32_t n, uint32_t tiles)
{
    const uint32_t groups = t->n_blocks * quant_groups(type);
    const bool is_last = first + n == groups;
    const uint32_t from = is_last ? 0 : first + n;
    const uint32_t left = groups - from;
    const size_t panels = is_last ? 2 * t->panel_bytes : 0;
    const size_t at = quant_share_at(type, from);
    const size_t end = quant_share_at(type, from + (left < PIECE_GROUPS ? left : PIECE_GROUPS));
    return (struct quant_next){
        .w = t->w,
        .at = panels + at,
        .end = panels + end,
        .panel_bytes = t->panel_bytes,
        .a_group = (uint32_t)((end - at) / 64 / ((size_t)tiles * n) + 1),
    };
}

/* Rows [0, rows) of the block for two panels. */
QUANT_INLINE void quant_strip_two(const enum weight_type type, uint32_t rows,
                                  const struct quant_tile *strip)
{
    struct quant_group piece[PIECE_GROUPS];
    const uint32_t groups = strip->n_blocks * quant_groups(type);
    for (uint32_t first = 0, n; first < groups; first += n) {
        n = groups - first < PIECE_GROUPS ? groups - first : PIECE_GROUPS;
        quant_unpack(type, strip, first, n, piece);
        struct quant_tile t = *strip;
        uint32_t tiles = (rows + ROWS_TWO - 1) / ROWS_TWO;
        struct quant_next next = quant_next_piece(type, strip, first, n, tiles);
        for (uint32_t left = rows, r; left > 0; left -= r, tiles--) {
            r = (left + tiles - 1) / tiles;
            if (first == 0)
                quant_prefetch_outputs(&t, r, 2);
            quant_piece_tile_of(type, r, &t, first, n, piece, &next);
            quant_tile_step(&t, r);
        }
    }
}
