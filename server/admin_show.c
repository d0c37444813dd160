/* admin_show.c: JSON for a person.
 *
 * WHY     What the daemon tells grows; a printer that follows the JSON's own shape shows all of it without a change here.
 * HOW     An object is a line a member, names in one column. A list of objects is a table whose columns are the scalar members
 *         of its rows in the order of the first row that has them; what is nested stands below its row's table, named.
 */
// SPDX-License-Identifier: Apache-2.0
#include "server/admin_show.h"

#include "config/base.h"

enum { COLUMNS_MAX = 24, CELL_ROOM = 512, NAME_ROOM = 48 };

static bool is_scalar(const json_t *value)
{
    return !json_is_object(value) && !json_is_array(value);
}

void admin_show_scalar(const json_t *value, char *ret_text, size_t room)
{
    size_t len = 0;
    switch (value != NULL ? json_typeof(value) : JSON_NULL) {
    case JSON_STRING:
        for (const char *c = json_string_value(value); *c != '\0' && len + 1 < room; c++)
            ret_text[len++] = (unsigned char)*c < ' ' || *c == 0x7f ? '?' : *c;
        ret_text[len] = '\0';
        break;
    case JSON_INTEGER:
        snprintf(ret_text, room, "%lld", (long long)json_integer_value(value));
        break;
    case JSON_REAL:
        snprintf(ret_text, room, "%g", json_real_value(value));
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        snprintf(ret_text, room, json_is_true(value) ? "yes" : "no");
        break;
    case JSON_NULL:
    case JSON_OBJECT:
    case JSON_ARRAY:
    default:
        snprintf(ret_text, room, "-");
    }
}

static bool is_list_of_objects(const json_t *list)
{
    const json_t *first = json_array_get(list, 0);
    return json_is_object(first);
}

struct column {
    const char *key;
    int width;
    bool is_number;
};

static size_t find_columns(const json_t *list, struct column columns[COLUMNS_MAX])
{
    size_t n = 0, i;
    json_t *row, *value;
    const char *key;
    char cell[CELL_ROOM];
    json_array_foreach(list, i, row) {
        json_object_foreach(row, key, value) {
            size_t at = 0;
            while (at < n && strcmp(columns[at].key, key) != 0)
                at++;
            if (!is_scalar(value) || at == COLUMNS_MAX)
                continue;
            if (at == n)
                columns[n++] = (struct column){key, (int)strlen(key), true};
            admin_show_scalar(value, cell, sizeof cell);
            int width = (int)strlen(cell);
            columns[at].width = width > columns[at].width ? width : columns[at].width;
            columns[at].is_number &= json_is_number(value);
        }
    }
    return n;
}

static void show_row(const json_t *row, const struct column *columns, size_t n, int indent, FILE *out)
{
    fprintf(out, "%*s", indent, "");
    for (size_t c = 0; c < n; c++) {
        char cell[CELL_ROOM];
        if (row == NULL)
            snprintf(cell, sizeof cell, "%s", columns[c].key);
        else
            admin_show_scalar(json_object_get(row, columns[c].key), cell, sizeof cell);
        int pad = columns[c].width - (int)strlen(cell);
        bool is_last = c + 1 == n;
        fprintf(out, "%*s%s%*s%s", columns[c].is_number ? pad : 0, "", cell,
                columns[c].is_number || is_last ? 0 : pad, "", is_last ? "" : "  ");
    }
    fprintf(out, "\n");
}

static void show_table(const json_t *list, int indent, FILE *out)
{
    struct column columns[COLUMNS_MAX];
    size_t n = find_columns(list, columns), i;
    json_t *row, *value;
    const char *key;
    show_row(NULL, columns, n, indent, out);
    json_array_foreach(list, i, row)
        show_row(row, columns, n, indent, out);
    json_array_foreach(list, i, row)
        json_object_foreach(row, key, value)
            if (!is_scalar(value) && (json_object_size(value) > 0 || json_array_size(value) > 0)) {
                fprintf(out, "%*s[%zu].%s\n", indent, "", i, key);
                admin_show_value(value, indent + 2, out);
            }
}

static void show_list(const json_t *list, int indent, FILE *out)
{
    size_t i;
    json_t *item;
    if (json_array_size(list) == 0) {
        fprintf(out, "%*snone\n", indent, "");
        return;
    }
    if (is_list_of_objects(list)) {
        show_table(list, indent, out);
        return;
    }
    json_array_foreach(list, i, item)
        admin_show_value(item, indent, out);
}

static void show_object(const json_t *object, int indent, FILE *out)
{
    const char *key;
    json_t *value;
    int width = 0;
    json_object_foreach((json_t *)object, key, value)
        if (is_scalar(value) && (int)strlen(key) > width && strlen(key) < NAME_ROOM)
            width = (int)strlen(key);
    json_object_foreach((json_t *)object, key, value) {
        if (is_scalar(value)) {
            char cell[CELL_ROOM];
            admin_show_scalar(value, cell, sizeof cell);
            fprintf(out, "%*s%-*s  %s\n", indent, "", width, key, cell);
        } else {
            fprintf(out, "%*s%s\n", indent, "", key);
            admin_show_value(value, indent + 2, out);
        }
    }
}

void admin_show_value(const json_t *value, int indent, FILE *out)
{
    char cell[CELL_ROOM];
    if (json_is_object(value)) {
        show_object(value, indent, out);
    } else if (json_is_array(value)) {
        show_list(value, indent, out);
    } else {
        admin_show_scalar(value, cell, sizeof cell);
        fprintf(out, "%*s%s\n", indent, "", cell);
    }
}

void admin_show_detail(const char *text, size_t len, FILE *out)
{
    json_t *root = json_loadb(text, len, 0, NULL);
    const json_t *detail = json_object_get(json_object_get(root, "error"), "detail");
    if (detail != NULL)
        admin_show_value(detail, 0, out);
    json_decref(root);
}
