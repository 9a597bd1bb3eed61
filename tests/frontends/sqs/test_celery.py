"""A Celery application with its SQS transport (kombu), and kombu alone."""

from collections.abc import Iterator

import pytest
from celery import Celery, signals
from celery.contrib.testing.worker import start_worker
from kombu import Connection

from penstock.testing.sqs import SqsServer

TRANSPORT = {"is_secure": False, "region": "us-east-1", "wait_time_seconds": 1, "polling_interval": 0.05}
PATIENCE_S = 60

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # kombu uses names of pycurl that are old.
]


@pytest.fixture
def _logging_of_its_own() -> Iterator[None]:
    """Celery configures the loggers of the process; with a receiver of this signal it does not."""

    def keep(**_: object) -> None:
        pass

    signals.setup_logging.connect(keep)
    yield
    signals.setup_logging.disconnect(keep)


@pytest.mark.usefixtures("_logging_of_its_own")
def test_celery_runs_tasks_at_once_and_later(server: SqsServer) -> None:
    app = Celery("jobs", broker=f"sqs://key:secret@{server.address}", backend="cache+memory://")
    app.conf.update(
        broker_transport_options=TRANSPORT,
        task_default_queue="celery-jobs",
        worker_hijack_root_logger=False,
        broker_connection_retry_on_startup=False,
    )

    @app.task  # type: ignore[untyped-decorator]
    def add(one: int, other: int) -> int:
        return one + other

    with start_worker(app, perform_ping_check=False, pool="solo", shutdown_timeout=PATIENCE_S):
        assert add.delay(2, 3).get(timeout=PATIENCE_S) == 5
        assert add.apply_async((5, 5), countdown=1).get(timeout=PATIENCE_S) == 10

    assert server.run(server.broker.describe_group("celery-jobs", "sqs")).lag == 0


def test_kombu_gets_again_what_was_not_acknowledged(server: SqsServer) -> None:
    with Connection(f"sqs://key:secret@{server.address}", transport_options=TRANSPORT) as connection:
        queue = connection.SimpleQueue("kombu-jobs")
        queue.put({"work": 1})

        message = queue.get(timeout=PATIENCE_S)
        server.advance("31m")  # Its visibility timeout is half an hour.
        again = queue.get(timeout=PATIENCE_S)
        again.ack()
        queue.close()

    assert (message.payload, again.payload) == ({"work": 1}, {"work": 1})
    assert server.run(server.broker.describe_group("kombu-jobs", "sqs")).lag == 0
