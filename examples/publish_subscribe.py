"""Publish and subscribe: every subscriber gets every message, at its own pace.

A subscription is a group of its own on the one log, so a subscriber that was away finds everything
published since, and a new one may start from the beginning.

Prints:

    anna reads b'extra, extra'
    anna reads b'more news'
    bert, who was away, reads [b'extra, extra', b'more news']
    carl, who is new, reads [b'extra, extra', b'more news']
    3 subscribers
"""

import penstock


def main() -> None:
    with penstock.open() as broker:
        news = broker.topic("news")
        anna = news.subscribe("anna")
        news.subscribe("bert").close()

        for headline in (b"extra, extra", b"more news"):
            news.publish(headline)
            for message in anna.receive():
                with message:
                    print("anna reads", message.value)

        bert = news.subscribe("bert")
        print("bert, who was away, reads", [message.value for message in bert.receive(max_messages=10)])
        carl = news.subscribe("carl", start="earliest")
        print("carl, who is new, reads", [message.value for message in carl.receive(max_messages=10)])
        print(news.subscriber_count(), "subscribers")


if __name__ == "__main__":
    main()
