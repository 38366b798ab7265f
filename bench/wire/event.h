/* The one-way event on the wire: a `report_message` line of exactly 200 bytes, newline included.
 *
 * The text is padding. Sequences start at 1,000,000 so that all of a run have seven digits and
 * every line the same length, whatever its place in the run.
 */
#ifndef BENCH_WIRE_EVENT_H
#define BENCH_WIRE_EVENT_H

#define EVENT_BYTES 200
#define EVENT_SPACE (EVENT_BYTES + 8) /* for snprintf: its final NUL, and some to spare */
#define FIRST_SEQUENCE 1000000L
#define MOST_EVENTS 9000000L

#define EVENT_HEAD                                                                              \
    "{\"jsonrpc\":\"2.0\",\"method\":\"report_message\",\"params\":{"                           \
    "\"session_token\":\"s\",\"task_id\":\"t\",\"sequence\":"

#define EVENT_FORMAT                                                                            \
    "{\"jsonrpc\":\"2.0\",\"method\":\"%s\",\"params\":{"                                       \
    "\"session_token\":\"%s\",\"task_id\":\"%s\",\"sequence\":%ld,\"timestamp\":%ld,"           \
    "\"event_type\":\"%s\",\"event_data\":{\"id\":\"%s\",\"text\":\"%s\"}}}\n"

#define EVENT_ARGUMENTS(sequence, timestamp)                                                    \
    "report_message", "s", "t", (sequence), (timestamp), "block_delta", "b1", "xxxx"

#endif
