/* quant_piece_tmpl.h: two panels times many activation rows, piece after piece; the part of matmul_quant_tmpl.h that a set with
 * QUANT_UNPACKS takes. */
// SPDX-License-Identifier: Apache-2.0

/* True if a group's values are had from the panel as cheaply as unpacked ones: only its scales are unpacked. */
QUANT_INLINE bool quant_is_light(const enum weight_type type)
{
    return quant_code(type) == CODE_BYTES ||
           (quant_code(type) == CODE_NIBBLES && !quant_is_listed(type));
}

/* Rows from which two panels take less time than one after the other: unpacking is paid for by the tiles after the first. */
QUANT_INLINE uint32_t quant_rows_for_two(const enum weight_type type)
{
    return quant_is_light(type) ? ROWS_ONE + 1 : 2 * ROWS_ONE;
}

/* A group of two panels as tiles of many rows use it. */
struct quant_group {
    _Alignas(64) char quads[2][QUANT_COLUMNS *
                               PANEL_ROWS]; /* as CODE_BYTES has them; of light types none */
    float d[2][2][PANEL_ROWS];              /* of both panels: for each half, or one for both */
    float m[2][2][PANEL_ROWS];
};

QUANT_INLINE void quant_unpack(const enum weight_type type, const struct quant_tile *t,
                               uint32_t first, uint32_t n, struct quant_group *ret);
QUANT_INLINE void quant_piece_tile(const enum weight_type type, const int rows,
                                   const struct quant_tile *t, uint32_t first, uint32_t n,
                                   const struct quant_group *piece);

#define QUANT_PIECE_CASE(r)                                                                        \
    case r:                                                                                        \
        if (r <= ROWS_TWO)                                                                         \
            quant_piece_tile(type, r, t, first, n, piece);                                         \
        break;

QUANT_INLINE void quant_piece_tile_of(const enum weight_type type, uint32_t rows,
                                      const struct quant_tile *t, uint32_t first, uint32_t n,
                                      const struct quant_group *piece)
{
    switch (rows) {
        QUANT_PIECE_CASE(1)
        QUANT_PIECE_CASE(2)
        QUANT_PIECE_CASE(3)
        QUANT_PIECE_CASE(4)
        QUANT_PIECE_CASE(5)
        QUANT_PIECE_CASE(6)
    default:
        break;
    }
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
        for (uint32_t left = rows, r; left > 0; left -= r, tiles--) {
            r = (left + tiles - 1) / tiles;
            if (first == 0)
                quant_prefetch_outputs(&t, r, 2);
            quant_piece_tile_of(type, r, &t, first, n, piece);
            quant_tile_step(&t, r);
        }
    }
}
