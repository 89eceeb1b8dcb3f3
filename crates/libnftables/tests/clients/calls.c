/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes calls of libnftables.so.1, one for each line of standard input: the function without
 * `nft_ctx_` or `nft_run_cmd_`, and its argument, in which `\n` is a line feed. Prints what the
 * calls return, and texts between brackets.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <nftables/libnftables.h>

static struct nft_ctx *ctx;

/* Releases before 1.1 have no flags of input. */
static unsigned int set_input(unsigned int flags) {
    unsigned int (*set)(struct nft_ctx *, unsigned int) =
        (unsigned int (*)(struct nft_ctx *, unsigned int))dlsym(RTLD_DEFAULT,
                                                                "nft_ctx_input_set_flags");
    return set ? set(ctx, flags) : 0;
}

static void unescape(char *text) {
    char *to = text;
    for (; *text; text++, to++) {
        *to = *text;
        if (text[0] == '\\' && text[1] == 'n') {
            *to = '\n';
            text++;
        }
    }
    *to = 0;
}

/* Sets a stream, and says whether the one before was the usual one. */
static void set_stream(FILE *(*set)(struct nft_ctx *, FILE *), const char *name, FILE *usual) {
    FILE *file = *name ? fopen(name, "w") : NULL;
    FILE *before = set(ctx, file);
    printf("%s\n", before == usual ? "usual" : before ? "another" : "none");
}

int main(void) {
    static char line[1 << 16];

    ctx = nft_ctx_new(NFT_CTX_DEFAULT);
    if (!ctx)
        return 2;
    while (fgets(line, sizeof(line), stdin)) {
        char *word = strtok(line, " \n");
        char *argument = strtok(NULL, "\n");
        if (!word)
            continue;
        argument = argument ? argument : "";
        argument = strdup(argument);
        unescape(argument);
        unsigned int number = strtoul(argument, NULL, 0);
        printf("%s: ", word);
        fflush(stdout);
        if (!strcmp(word, "set_dry_run"))
            nft_ctx_set_dry_run(ctx, number), printf("%d\n", nft_ctx_get_dry_run(ctx));
        else if (!strcmp(word, "set_optimize"))
            nft_ctx_set_optimize(ctx, number), printf("%u\n", nft_ctx_get_optimize(ctx));
        else if (!strcmp(word, "input_set_flags"))
            printf("%u\n", set_input(number));
        else if (!strcmp(word, "output_set_flags"))
            nft_ctx_output_set_flags(ctx, number), printf("%u\n", nft_ctx_output_get_flags(ctx));
        else if (!strcmp(word, "output_set_debug"))
            nft_ctx_output_set_debug(ctx, number), printf("%u\n", nft_ctx_output_get_debug(ctx));
        else if (!strcmp(word, "set_output"))
            set_stream(nft_ctx_set_output, argument, stdout);
        else if (!strcmp(word, "set_error"))
            set_stream(nft_ctx_set_error, argument, stderr);
        else if (!strcmp(word, "buffer_output"))
            printf("%d\n", nft_ctx_buffer_output(ctx));
        else if (!strcmp(word, "buffer_error"))
            printf("%d\n", nft_ctx_buffer_error(ctx));
        else if (!strcmp(word, "unbuffer_output"))
            printf("%d\n", nft_ctx_unbuffer_output(ctx));
        else if (!strcmp(word, "unbuffer_error"))
            printf("%d\n", nft_ctx_unbuffer_error(ctx));
        else if (!strcmp(word, "get_output_buffer"))
            printf("[%s]\n", nft_ctx_get_output_buffer(ctx));
        else if (!strcmp(word, "get_error_buffer"))
            printf("[%s]\n", nft_ctx_get_error_buffer(ctx));
        else if (!strcmp(word, "add_include_path"))
            printf("%d\n", nft_ctx_add_include_path(ctx, argument));
        else if (!strcmp(word, "clear_include_paths"))
            nft_ctx_clear_include_paths(ctx), printf("done\n");
        else if (!strcmp(word, "add_var"))
            printf("%d\n", nft_ctx_add_var(ctx, argument));
        else if (!strcmp(word, "clear_vars"))
            nft_ctx_clear_vars(ctx), printf("done\n");
        else if (!strcmp(word, "from_buffer"))
            printf("%d\n", nft_run_cmd_from_buffer(ctx, argument));
        else if (!strcmp(word, "from_filename"))
            printf("%d\n", nft_run_cmd_from_filename(ctx, argument));
        else if (!strcmp(word, "new")) {
            nft_ctx_free(ctx);
            ctx = nft_ctx_new(NFT_CTX_DEFAULT);
            printf("done\n");
        } else {
            printf("what?\n");
            return 2;
        }
        free(argument);
    }
    nft_ctx_free(ctx);
    return 0;
}
