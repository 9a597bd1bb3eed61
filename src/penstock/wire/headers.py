"""Names of the headers that Penstock interprets; all others belong to users.

added by the broker      to records of the data log; an attribute bit of the batch shows their presence
dead letters             describe the message that failed
set by producers         options of clients without another way to set them (topics with ``kafka_headers``)
internal                 in the logs of schedules and of staged messages
"""

from typing import Final

from penstock.wire.records import DEDUP, EXPIRES, REDRIVEN, SCHEDULED

# Added by the broker.
SCHEDULE_ID: Final = "x-schedule-id"  # The entry of the schedule that a record comes from.
EXPIRES_AT: Final = "x-expires-at"
DEDUP_ID: Final = "x-dedup-id"  # Producers of ``kafka_headers`` ask for it by the same name.
REDRIVE_GROUP: Final = "x-redrive-group"  # The only group that gets a redriven message.
# Each by the bit that says that some record of a batch has it.
BROKER_HEADERS: Final = (
    (SCHEDULED, SCHEDULE_ID),
    (EXPIRES, EXPIRES_AT),
    (DEDUP, DEDUP_ID),
    (REDRIVEN, REDRIVE_GROUP),
)
BROKER_HEADER_BITS: Final = SCHEDULED | EXPIRES | DEDUP | REDRIVEN

# Dead letters.
ERROR: Final = "x-error"
ERROR_CLASS: Final = "x-error-class"
ERROR_MESSAGE: Final = "x-error-message"
ERROR_FINGERPRINT: Final = "x-error-fingerprint"
DEATH_REASON: Final = "x-death-reason"
SOURCE_TOPIC: Final = "x-source-topic"
SOURCE_PARTITION: Final = "x-source-partition"
SOURCE_OFFSET: Final = "x-source-offset"
SOURCE: Final = (SOURCE_TOPIC, SOURCE_PARTITION, SOURCE_OFFSET)
FAILED_GROUP: Final = "x-group"
ATTEMPTS: Final = "x-attempts"
FIRST_FAILED_AT: Final = "x-first-failed-at"
LAST_FAILED_AT: Final = "x-last-failed-at"
DEAD_LETTER_HEADERS: Final = (
    ERROR, ERROR_CLASS, ERROR_MESSAGE, ERROR_FINGERPRINT, DEATH_REASON, SOURCE_TOPIC, SOURCE_PARTITION,
    SOURCE_OFFSET, FAILED_GROUP, ATTEMPTS, FIRST_FAILED_AT, LAST_FAILED_AT,
)  # fmt: skip
REDRIVEN_FROM: Final = "x-redriven-from"  # Of a redriven message: its dead letter.

# Asked for by producers.
DELAY_MS: Final = "x-delay-ms"
DELIVER_AT: Final = "x-deliver-at"
PRIORITY: Final = "x-priority"
TTL_MS: Final = "x-ttl-ms"

PRODUCER: Final = "x-producer"  # Who publishes, for traces; nothing else depends on it.

# Internal.
SCHEDULE_KIND: Final = "x-schedule"  # Of every entry of a schedule.
STAGED_DELAY: Final = "x-delay"
STAGED_TTL: Final = "x-ttl"
