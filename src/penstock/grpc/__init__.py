"""The gRPC API: ``penstock.proto``, and the Python code that was generated from it, with types.

    import grpc
    from penstock.grpc import penstock_pb2 as pb
    from penstock.grpc.penstock_pb2_grpc import PublisherStub

    with grpc.insecure_channel("127.0.0.1:9000") as channel:
        message = pb.Message(value=b"hello")
        print(PublisherStub(channel).Publish(pb.PublishRequest(topic="orders", message=message)).id)

A program that imports this loads neither the broker nor Penstock's own client.
It needs ``pip install 'penstock[grpc]'``; clients in other languages need the
``.proto`` file only.  ``make generate`` writes the modules again.
"""
