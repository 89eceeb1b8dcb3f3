/* SPDX-License-Identifier: Apache-2.0 */
/* A program that embeds the packet path: compiled and run by tests/c.rs. */

#include "penstock.h"

#include <stdio.h>
#include <string.h>

#define CHECK(what)                                                             \
    do {                                                                        \
        if (!(what)) {                                                          \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what);          \
            return 1;                                                           \
        }                                                                       \
    } while (0)

static const char NET[] =
    "link add wan address 02:00:00:00:00:01 type veth\n"
    "link add lan address 02:00:00:00:00:02 type veth\n"
    "link set wan up\n"
    "link set lan up\n"
    "addr add 198.18.0.1/24 dev wan\n"
    "addr add 198.18.1.1/24 dev lan\n"
    "neigh add 198.18.1.7 lladdr 02:00:00:00:01:07 dev lan\n";

static const char RULES[] =
    "table inet filter {\n"
    "    counter dns { }\n"
    "    chain forward {\n"
    "        type filter hook forward priority filter; policy drop;\n"
    "        udp dport 53 counter name dns accept\n"
    "    }\n"
    "}\n";

/* UDP from 198.18.0.9 to 198.18.1.7, port 53. */
static uint8_t frame[] = {
    0x02, 0, 0, 0, 0, 1, 0x02, 0, 0, 0, 0, 9, 0x08, 0x00,
    0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0xed, 0x9c, 198, 18, 0, 9, 198, 18, 1, 7,
    0x30, 0x39, 0, 53, 0, 8, 0, 0};

struct seen {
    int sent, dropped, traced;
    uint32_t device;
    char rule[80];
    penstock_dataplane *dataplane;
    char refused[80];
};

static void sent(void *user, const penstock_packet *packet) {
    struct seen *seen = user;
    penstock_error *error = NULL;
    seen->sent++;
    seen->device = packet->device;
    /* The dataplane that calls must not be used, and says so. */
    if (!penstock_dataplane_advance(seen->dataplane, packet->time, NULL, &error)) {
        snprintf(seen->refused, sizeof seen->refused, "%s", penstock_error_message(error));
        penstock_error_free(error);
    }
}

static void dropped(void *user, const penstock_drop *drop) {
    struct seen *seen = user;
    seen->dropped++;
    snprintf(seen->rule, sizeof seen->rule, "%s: %s", drop->reason, drop->rule ? drop->rule : "");
}

static void traced(void *user, const char *line) {
    struct seen *seen = user;
    seen->traced += strncmp(line, "trace id ", 9) == 0;
}

static void counted(void *user, const penstock_counter *counter) {
    uint64_t *packets = user;
    if (!counter->chain && strcmp(counter->name, "dns") == 0)
        *packets = counter->packets;
}

int main(void) {
    penstock_error *error = NULL;
    penstock_network *network = penstock_network_from_text(NET, &error);
    CHECK(network && !error);
    uint32_t wan = penstock_network_device(network, "wan");
    uint32_t lan = penstock_network_device(network, "lan");
    CHECK(wan && lan && !penstock_network_device(network, "dmz"));

    /* Mistakes are told with their places. */
    penstock_place place;
    const char wrong[] = "table inet t {\n\tchain c {\n\t\ttcp dport 99999 accept\n\t}\n}\n";
    CHECK(!penstock_ruleset_from_text(network, wrong, &error));
    CHECK(strstr(penstock_error_message(error), "ruleset:3:13-17: Error: Service out of range"));
    const char *message = penstock_error_detail(error, 0, &place);
    CHECK(message && strcmp(message, "Service out of range") == 0);
    CHECK(place.line == 3 && place.first == 13 && place.last == 17);
    CHECK(strcmp(penstock_error_file(error, 0), "ruleset") == 0);
    CHECK(!penstock_error_detail(error, 100, NULL));
    penstock_error_free(error);
    error = NULL;
    CHECK(!penstock_ruleset_from_text(NULL, RULES, &error));
    CHECK(strcmp(penstock_error_message(error), "a pointer is null") == 0);
    penstock_error_free(error);
    error = NULL;
    CHECK(!penstock_network_from_text("\xff", &error));
    CHECK(strcmp(penstock_error_message(error), "a text is not UTF-8") == 0);
    penstock_error_free(error);
    error = NULL;
    CHECK(!penstock_network_from_text("frob", NULL));
    CHECK(!penstock_ruleset_from_state(network, (const uint8_t *)"x", 1, 0, NULL));

    penstock_ruleset *ruleset = penstock_ruleset_from_text(network, RULES, &error);
    CHECK(ruleset && !error);
    penstock_session *session = penstock_session_new(ruleset, &error);
    CHECK(!penstock_dataplane_new(network, ruleset, 77, 1, NULL));
    penstock_dataplane *dataplane =
        penstock_dataplane_new(network, ruleset, PENSTOCK_ENGINE_BEST, 1, &error);
    CHECK(session && dataplane && !error);

    struct seen seen = {.dataplane = dataplane};
    penstock_sink sink = {.user = &seen, .sent = sent, .dropped = dropped, .traced = traced};
    penstock_frame burst[2] = {{wan, frame, sizeof frame, 1}, {wan, frame, 20, 1}};
    CHECK(penstock_dataplane_receive(dataplane, burst, 2, &sink, &error) && !error);
    CHECK(seen.sent == 1 && seen.device == lan && seen.dropped == 1);
    CHECK(strcmp(seen.refused, "the handle is in use") == 0);
    uint64_t packets = 0;
    penstock_ruleset_counters(ruleset, counted, &packets);
    CHECK(packets == 1);

    char *output = NULL;
    CHECK(penstock_session_run(session, "flush chain inet filter forward\nlist chain inet filter forward", 1,
                               &output, &error));
    CHECK(strstr(output, "policy drop;"));
    penstock_text_free(output);
    CHECK(!penstock_session_run(session, "add rule inet filter none accept", 1, NULL, &error));
    penstock_error_free(error);
    error = NULL;
    CHECK(penstock_dataplane_set_rules(dataplane, session, &error));
    CHECK(penstock_dataplane_trace_all(dataplane, true, &error));
    CHECK(penstock_dataplane_receive(dataplane, burst, 1, &sink, &error));
    CHECK(seen.sent == 1 && seen.dropped == 2 && seen.traced > 0);
    CHECK(strcmp(seen.rule, "policy: inet filter forward") == 0);
    CHECK(penstock_dataplane_advance(dataplane, 1000000000, NULL, &error));
    CHECK(penstock_dataplane_send_from_host(dataplane, frame + 14, sizeof frame - 14, 2, NULL, &error));
    CHECK(!penstock_dataplane_receive(dataplane, NULL, 1, NULL, NULL));
    penstock_counters counters = penstock_dataplane_counters(dataplane);
    CHECK(counters.received == 3 && counters.dropped == 2 && counters.from_host == 1);
    CHECK(penstock_dataplane_counters(NULL).received == 0);

    penstock_ruleset *now = penstock_session_ruleset(session, &error);
    char *text = penstock_ruleset_to_text(now, 1), *json = penstock_ruleset_to_json(now, 1);
    CHECK(strstr(text, "counter dns") && strstr(json, "\"nftables\""));
    penstock_text_free(text);
    penstock_text_free(json);
    penstock_ruleset_free(now);

    /* Handles do not need each other. */
    penstock_network_free(network);
    penstock_ruleset_free(ruleset);
    penstock_session_free(session);
    CHECK(penstock_dataplane_receive(dataplane, burst, 1, NULL, &error));
    penstock_dataplane_free(dataplane);
    penstock_error_free(NULL);
    penstock_text_free(NULL);
    penstock_dataplane_free(NULL);
    printf("penstock %s\n", penstock_version());
    return 0;
}
