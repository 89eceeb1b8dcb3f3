/* SPDX-License-Identifier: Apache-2.0 */

#ifndef PENSTOCK_H
#define PENSTOCK_H

/* Made by `make header` from crates/capi/src. Do not change it by hand. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 Engine: machine code where it can be made, and else the interpreter.
 */
#define PENSTOCK_ENGINE_BEST 0

/*
 Engine: the interpreter.
 */
#define PENSTOCK_ENGINE_INTERPRETER 1

/*
 Engine: machine code, which is made on its own thread; until it is there, the interpreter.
 */
#define PENSTOCK_ENGINE_JIT 2

/*
 What packets pass through.
 */
typedef struct penstock_dataplane penstock_dataplane;

/*
 Why something was refused.
 */
typedef struct penstock_error penstock_error;

/*
 Devices, addresses, routes and neighbours.
 */
typedef struct penstock_network penstock_network;

/*
 A ruleset.
 */
typedef struct penstock_ruleset penstock_ruleset;

/*
 Changes a ruleset by commands.
 */
typedef struct penstock_session penstock_session;

/*
 A place in a text of rules: the line, and the columns of its first and last byte, all from 1.
 All are 0 for what stands nowhere in the text.
 */
typedef struct penstock_place {
  /*
   The line.
   */
  uint32_t line;
  /*
   Column of the first byte.
   */
  uint32_t first;
  /*
   Column of the last byte.
   */
  uint32_t last;
} penstock_place;

/*
 A counter of a ruleset.
 */
typedef struct penstock_counter {
  /*
   Family of the table: `inet`, `ip`, `ip6`, `arp`, `bridge`, `netdev`.
   */
  const char *family;
  /*
   The table.
   */
  const char *table;
  /*
   The rule's chain; null for a named counter.
   */
  const char *chain;
  /*
   The rule as nft lists it, or the counter's name.
   */
  const char *name;
  /*
   The rule's handle; 0 for a named counter.
   */
  uint64_t handle;
  /*
   Packets.
   */
  uint64_t packets;
  /*
   Bytes.
   */
  uint64_t bytes;
} penstock_counter;

/*
 A frame that came in by a device.
 */
typedef struct penstock_frame {
  /*
   Index of the device.
   */
  uint32_t device;
  /*
   The frame with its Ethernet header; its transport checksum is whole.
   */
  const uint8_t *bytes;
  /*
   Bytes of the frame.
   */
  size_t len;
  /*
   When it came.
   */
  uint64_t time;
} penstock_frame;

/*
 A frame that leaves, or a packet that is delivered.
 */
typedef struct penstock_packet {
  /*
   Index of the device that it leaves by, or came in by.
   */
  uint32_t device;
  /*
   A frame with its Ethernet header if it leaves; if it is delivered, the packet from its
   network header on.
   */
  const uint8_t *bytes;
  /*
   How many bytes.
   */
  size_t len;
  /*
   EtherType, for packets that are delivered; else 0.
   */
  uint16_t protocol;
  /*
   `meta mark`.
   */
  uint32_t mark;
  /*
   Time of the packet.
   */
  uint64_t time;
} penstock_packet;

/*
 The end of a packet.
 */
typedef struct penstock_drop {
  /*
   Why, in words: `rule`, `policy`, `no route`.
   */
  const char *reason;
  /*
   The rule or policy that did it, as in `inet filter forward handle 12`; or null.
   */
  const char *rule;
  /*
   The packet from its network header on.
   */
  const uint8_t *bytes;
  /*
   How many bytes.
   */
  size_t len;
  /*
   `meta mark`.
   */
  uint32_t mark;
  /*
   Time of the packet.
   */
  uint64_t time;
} penstock_drop;

/*
 What takes the things that happen to packets. Functions may be null.
 */
typedef struct penstock_sink {
  /*
   Given to each function.
   */
  void *user;
  /*
   A frame leaves by a device.
   */
  void (*sent)(void *user, const struct penstock_packet *packet);
  /*
   A packet has come to the host itself.
   */
  void (*delivered)(void *user, const struct penstock_packet *packet);
  /*
   A packet ends.
   */
  void (*dropped)(void *user, const struct penstock_drop *drop);
  /*
   A `log` statement, with its prefix.
   */
  void (*logged)(void *user, const char *prefix, const struct penstock_packet *packet);
  /*
   A line of `nft monitor trace` about a packet that is traced.
   */
  void (*traced)(void *user, const char *line);
} penstock_sink;

/*
 What happened to how many packets.
 */
typedef struct penstock_counters {
  /*
   Frames received from devices.
   */
  uint64_t received;
  /*
   Frames sent.
   */
  uint64_t sent;
  /*
   Packets delivered to the host.
   */
  uint64_t delivered;
  /*
   Packets dropped.
   */
  uint64_t dropped;
  /*
   Packets that the host has sent.
   */
  uint64_t from_host;
  /*
   Packets that wait: fragments, and queues.
   */
  uint64_t waiting;
} penstock_counters;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 The version of the library, such as `0.1.0`. It lives as long as the library.
 */
const char *penstock_version(void);

/*
 The whole message of an error: of a ruleset it is nft's, with the line and marks. It lives as
 long as the error. Null for null.

 # Safety
 `error` is null or an error that was not freed.
 */
const char *penstock_error_message(const struct penstock_error *error);

/*
 Message number `n`, from 0, of a refused text of rules, without place and marks, and where the
 place is not null, the place. Null if there are not so many. It lives as long as the error.

 # Safety
 `error` is null or an error that was not freed; `place` is null or may be written.
 */
const char *penstock_error_detail(const struct penstock_error *error,
                                  size_t n,
                                  struct penstock_place *place);

/*
 The name of the text that message number `n` is about. Null if there are not so many.

 # Safety
 As of `penstock_error_detail`.
 */
const char *penstock_error_file(const struct penstock_error *error, size_t n);

/*
 Frees an error. Null is left alone.

 # Safety
 `error` is null or an error that was not freed.
 */
void penstock_error_free(struct penstock_error *error);

/*
 Frees a text. Null is left alone.

 # Safety
 `text` is null or came from a function of this library and was not freed.
 */
void penstock_text_free(char *text);

/*
 Reads a network from lines for `ip -batch`. Null if it fails.

 # Safety
 `lines` is null or a text; `error` is null or may be written.
 */
struct penstock_network *penstock_network_from_text(const char *lines,
                                                    struct penstock_error **error);

/*
 The index of a device by its name; 0 if there is none.

 # Safety
 `network` is null or a network that was not freed, `name` null or a text.
 */
uint32_t penstock_network_device(const struct penstock_network *network, const char *name);

/*
 Frees a network. Rulesets and dataplanes that were made with it stay. Null is left alone.

 # Safety
 `network` is null or a network that was not freed.
 */
void penstock_network_free(struct penstock_network *network);

/*
 Reads a ruleset as `nft -f` does. Null if it fails. It may name the devices of the network, and
 includes no files.

 # Safety
 `network` is null or a network that was not freed, `rules` null or a text; `error` is null or
 may be written.
 */
struct penstock_ruleset *penstock_ruleset_from_text(const struct penstock_network *network,
                                                    const char *rules,
                                                    struct penstock_error **error);

/*
 Reads a ruleset as `nft -j -f` does. Null if it fails.

 # Safety
 As of `penstock_ruleset_from_text`.
 */
struct penstock_ruleset *penstock_ruleset_from_json(const struct penstock_network *network,
                                                    const char *rules,
                                                    struct penstock_error **error);

/*
 Takes the ruleset of the bytes of a state file, at a time. Null if it fails.

 # Safety
 `network` is null or a network that was not freed; `state` points to `len` bytes; `error` is
 null or may be written.
 */
struct penstock_ruleset *penstock_ruleset_from_state(const struct penstock_network *network,
                                                     const uint8_t *state,
                                                     size_t len,
                                                     uint64_t now,
                                                     struct penstock_error **error);

/*
 The ruleset as `nft list ruleset` prints it at a time, to be freed by `penstock_text_free`. Null
 for null.

 # Safety
 `ruleset` is null or a ruleset that was not freed.
 */
char *penstock_ruleset_to_text(const struct penstock_ruleset *ruleset, uint64_t now);

/*
 The ruleset as `nft -j list ruleset` prints it at a time, to be freed by `penstock_text_free`.
 Null for null.

 # Safety
 `ruleset` is null or a ruleset that was not freed.
 */
char *penstock_ruleset_to_json(const struct penstock_ruleset *ruleset, uint64_t now);

/*
 Calls `take` for each counter, table by table: named ones first, then those of rules in order.

 # Safety
 `ruleset` is null or a ruleset that was not freed.
 */
void penstock_ruleset_counters(const struct penstock_ruleset *ruleset,
                               void (*take)(void *user, const struct penstock_counter *counter),
                               void *user);

/*
 Frees a ruleset. Sessions and dataplanes that were made with it stay. Null is left alone.

 # Safety
 `ruleset` is null or a ruleset that was not freed.
 */
void penstock_ruleset_free(struct penstock_ruleset *ruleset);

/*
 Begins a session with a ruleset. Null if it fails. Counters and sets are the same in both; rules
 that the session adds are its own.

 # Safety
 `ruleset` is null or a ruleset that was not freed; `error` is null or may be written.
 */
struct penstock_session *penstock_session_new(const struct penstock_ruleset *ruleset,
                                              struct penstock_error **error);

/*
 Runs commands of nft as one transaction. `output`, where it is not null, is set to what nft
 prints, to be freed by `penstock_text_free`. Whether it went well; else nothing is changed.

 # Safety
 `session` is null or a session that was not freed, `commands` null or a text; `output` and
 `error` are null or may be written.
 */
bool penstock_session_run(const struct penstock_session *session,
                          const char *commands,
                          uint64_t now,
                          char **output,
                          struct penstock_error **error);

/*
 The ruleset of a session as it is now, to be freed by `penstock_ruleset_free`. Null if it fails.

 # Safety
 `session` is null or a session that was not freed; `error` is null or may be written.
 */
struct penstock_ruleset *penstock_session_ruleset(const struct penstock_session *session,
                                                  struct penstock_error **error);

/*
 Frees a session. Null is left alone.

 # Safety
 `session` is null or a session that was not freed.
 */
void penstock_session_free(struct penstock_session *session);

/*
 A dataplane with a ruleset in force. Null if it fails. `engine` is one of `PENSTOCK_ENGINE_*`.
 With a seed other than 0 runs repeat, for tests; with 0 what is chosen at random is
 unpredictable, as packets of strangers need.

 # Safety
 `network` and `ruleset` are null or were not freed; `error` is null or may be written.
 */
struct penstock_dataplane *penstock_dataplane_new(const struct penstock_network *network,
                                                  const struct penstock_ruleset *ruleset,
                                                  uint32_t engine,
                                                  uint64_t seed,
                                                  struct penstock_error **error);

/*
 Passes frames that came in by devices, and tells a sink, which may be null, what happens.
 Whether it went well; that packets are dropped is no failure.

 # Safety
 `dataplane` is null or was not freed; `frames` points to `count` frames, each of which points to
 its bytes; `sink` is null or a sink; `error` is null or may be written.
 */
bool penstock_dataplane_receive(const struct penstock_dataplane *dataplane,
                                const struct penstock_frame *frames,
                                size_t count,
                                const struct penstock_sink *sink,
                                struct penstock_error **error);

/*
 Sends an IP packet, from its header on, as the host does. Whether it went well; that it is
 dropped is no failure.

 # Safety
 `dataplane` is null or was not freed; `packet` points to `len` bytes; `sink` is null or a sink;
 `error` is null or may be written.
 */
bool penstock_dataplane_send_from_host(const struct penstock_dataplane *dataplane,
                                       const uint8_t *packet,
                                       size_t len,
                                       uint64_t time,
                                       const struct penstock_sink *sink,
                                       struct penstock_error **error);

/*
 Lets time pass without packets. Call it once a second while none come.

 # Safety
 `dataplane` is null or was not freed; `sink` is null or a sink; `error` is null or may be
 written.
 */
bool penstock_dataplane_advance(const struct penstock_dataplane *dataplane,
                                uint64_t time,
                                const struct penstock_sink *sink,
                                struct penstock_error **error);

/*
 Puts the rules of a session in force. Connections, counters and elements of sets stay.

 # Safety
 `dataplane` and `session` are null or were not freed; `error` is null or may be written.
 */
bool penstock_dataplane_set_rules(const struct penstock_dataplane *dataplane,
                                  const struct penstock_session *session,
                                  struct penstock_error **error);

/*
 Traces every packet from now on, or no longer.

 # Safety
 `dataplane` is null or was not freed; `error` is null or may be written.
 */
bool penstock_dataplane_trace_all(const struct penstock_dataplane *dataplane,
                                  bool on,
                                  struct penstock_error **error);

/*
 What happened to how many packets so far. All 0 for null.

 # Safety
 `dataplane` is null or was not freed.
 */
struct penstock_counters penstock_dataplane_counters(const struct penstock_dataplane *dataplane);

/*
 Frees a dataplane. Null is left alone.

 # Safety
 `dataplane` is null or was not freed, and no callback of it runs.
 */
void penstock_dataplane_free(struct penstock_dataplane *dataplane);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* PENSTOCK_H */
