/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libnftables.so.1: commands of nft(8), run by a program.
 *
 * - A context has settings, an output for answers, an output for errors, and the names that texts
 *   have defined. One thread at a time uses it; several contexts know nothing of each other.
 * - Texts end with a zero byte. Bytes that are not UTF-8 are replaced.
 * - A function that is given a null pointer does nothing, and fails if it can.
 * - Which ruleset a context works on, PENSTOCK_EXEC says when the context is made: the path of a
 *   state file, or `live` for the dataplane of the network namespace, as without it.
 *   PENSTOCK_COMPAT says which release of nft listings have the form of: 1.0.6, as without it, or
 *   1.1.
 */

#ifndef LIB_NFTABLES_H
#define LIB_NFTABLES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A context. */
struct nft_ctx;

/* For nft_ctx_new. */
#define NFT_CTX_DEFAULT 0

/* Makes a context; null without memory. Flags mean nothing yet. */
struct nft_ctx *nft_ctx_new(uint32_t flags);

/* Frees a context with its buffers. Streams that were set stay open. */
void nft_ctx_free(struct nft_ctx *ctx);

/* A dry run checks texts, and changes nothing. */
bool nft_ctx_get_dry_run(struct nft_ctx *ctx);
void nft_ctx_set_dry_run(struct nft_ctx *ctx, bool dry);

enum nft_optimize_flags {
    /* Rules of files that differ in a value are merged; what is merged is told. */
    NFT_OPTIMIZE_ENABLED = 0x1,
};

uint32_t nft_ctx_get_optimize(struct nft_ctx *ctx);
void nft_ctx_set_optimize(struct nft_ctx *ctx, uint32_t flags);

/* How texts are read. */
enum {
    /* Names of hosts are not resolved: they are errors. */
    NFT_CTX_INPUT_NO_DNS = (1 << 0),
    /* Texts may be JSON, as they may with NFT_CTX_OUTPUT_JSON. */
    NFT_CTX_INPUT_JSON = (1 << 1),
};

unsigned int nft_ctx_input_get_flags(struct nft_ctx *ctx);
/* Returns the flags before. */
unsigned int nft_ctx_input_set_flags(struct nft_ctx *ctx, unsigned int flags);

/* How answers are written. */
enum {
    /* Names of hosts for their addresses. */
    NFT_CTX_OUTPUT_REVERSEDNS = (1 << 0),
    /* Names of services for ports. */
    NFT_CTX_OUTPUT_SERVICE = (1 << 1),
    /* No values of counters, quotas and the like. */
    NFT_CTX_OUTPUT_STATELESS = (1 << 2),
    /* Handles. */
    NFT_CTX_OUTPUT_HANDLE = (1 << 3),
    /* JSON, see libnftables-json(5); and texts may be JSON. */
    NFT_CTX_OUTPUT_JSON = (1 << 4),
    /* What a text has added is written, as the ruleset has it. */
    NFT_CTX_OUTPUT_ECHO = (1 << 5),
    /* Names of users and groups for their numbers. */
    NFT_CTX_OUTPUT_GUID = (1 << 6),
    /* Numbers for transport protocols. */
    NFT_CTX_OUTPUT_NUMERIC_PROTO = (1 << 7),
    /* Numbers for priorities of chains. */
    NFT_CTX_OUTPUT_NUMERIC_PRIO = (1 << 8),
    /* Numbers for all other constants. */
    NFT_CTX_OUTPUT_NUMERIC_SYMBOL = (1 << 9),
    /* Seconds for times. */
    NFT_CTX_OUTPUT_NUMERIC_TIME = (1 << 10),
    /* All numbers. */
    NFT_CTX_OUTPUT_NUMERIC_ALL =
        (NFT_CTX_OUTPUT_NUMERIC_PROTO | NFT_CTX_OUTPUT_NUMERIC_PRIO |
         NFT_CTX_OUTPUT_NUMERIC_SYMBOL | NFT_CTX_OUTPUT_NUMERIC_TIME),
    /* Sets and maps without their elements. */
    NFT_CTX_OUTPUT_TERSE = (1 << 11),
};

unsigned int nft_ctx_output_get_flags(struct nft_ctx *ctx);
void nft_ctx_output_set_flags(struct nft_ctx *ctx, unsigned int flags);

/* What is told of how texts are understood. Of the levels there is NFT_DEBUG_NETLINK: sets,
 * elements and programs as they go to the ruleset. Texts are refused while another one is set,
 * unless all are. */
enum nft_debug_level {
    NFT_DEBUG_SCANNER = 0x1,
    NFT_DEBUG_PARSER = 0x2,
    NFT_DEBUG_EVALUATION = 0x4,
    NFT_DEBUG_NETLINK = 0x8,
    NFT_DEBUG_MNL = 0x10,
    NFT_DEBUG_PROTO_CTX = 0x20,
    NFT_DEBUG_SEGTREE = 0x40,
};

unsigned int nft_ctx_output_get_debug(struct nft_ctx *ctx);
void nft_ctx_output_set_debug(struct nft_ctx *ctx, unsigned int mask);

/* Set where answers and errors are written: standard output and standard error at first. Return
 * the stream before; or null, and change nothing, if `fp` is null or in error. The stream stays
 * open until there is another one, or no context. While there is a buffer, that is written to. */
FILE *nft_ctx_set_output(struct nft_ctx *ctx, FILE *fp);
FILE *nft_ctx_set_error(struct nft_ctx *ctx, FILE *fp);

/* Begin to write into a buffer, or empty it. Return 0. */
int nft_ctx_buffer_output(struct nft_ctx *ctx);
int nft_ctx_buffer_error(struct nft_ctx *ctx);

/* End that. Return 0, or another number if there is no buffer. */
int nft_ctx_unbuffer_output(struct nft_ctx *ctx);
int nft_ctx_unbuffer_error(struct nft_ctx *ctx);

/* What was written into a buffer since this was asked last; the empty text without a buffer. It
 * lives until the next text is given, or until the buffer ends. */
const char *nft_ctx_get_output_buffer(struct nft_ctx *ctx);
const char *nft_ctx_get_error_buffer(struct nft_ctx *ctx);

/* Directories where included files are looked for: /etc at first. Return 0. */
int nft_ctx_add_include_path(struct nft_ctx *ctx, const char *path);
void nft_ctx_clear_include_paths(struct nft_ctx *ctx);

/* Variables of files: `var` is `name=value`. Return 0, or -1 if it is not. */
int nft_ctx_add_var(struct nft_ctx *ctx, const char *var);
void nft_ctx_clear_vars(struct nft_ctx *ctx);

/* Run commands as one transaction. Return 0, or -1 if it is refused, which the errors explain.
 * What they define is known to later texts: of a state file; a dataplane forgets it. */
int nft_run_cmd_from_buffer(struct nft_ctx *ctx, const char *commands);

/* The same of a file; `-` is standard input. What it defines ends with it, and what buffers have
 * defined before. */
int nft_run_cmd_from_filename(struct nft_ctx *ctx, const char *name);

#ifdef __cplusplus
}
#endif

#endif /* LIB_NFTABLES_H */
