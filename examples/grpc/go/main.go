// Publishes three messages, and receives and acks them on one stream.
//
//	./generate              writes penstockpb from penstock.proto; it needs protoc, or Python with grpcio-tools
//	go run . 127.0.0.1:9000
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	pb "penstock.dev/example/penstockpb"
)

func main() {
	address := "127.0.0.1:9000"
	if len(os.Args) > 1 {
		address = os.Args[1]
	}
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	publisher := pb.NewPublisherClient(connection)
	for _, value := range []string{"one", "two", "three"} {
		message := &pb.Message{Value: []byte(value), Key: []byte("order-1"), Headers: map[string]string{"from": "go"}}
		receipt, err := publisher.Publish(ctx, &pb.PublishRequest{Topic: "go-orders", Message: message})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("published", receipt.Id)
	}
	if err := consume(ctx, pb.NewConsumerClient(connection), 3); err != nil {
		log.Fatal(err)
	}
}

func consume(ctx context.Context, consumer pb.ConsumerClient, count int) error {
	stream, err := consumer.Consume(ctx)
	if err != nil {
		return err
	}
	open := &pb.Open{Topic: "go-orders", Group: "go-workers"}
	if err := stream.Send(&pb.ConsumeRequest{Id: 1, Request: &pb.ConsumeRequest_Open{Open: open}}); err != nil {
		return err
	}
	receive := &pb.Receive{MaxMessages: 10, WaitMs: 10_000}
	for id := uint64(2); ; {
		response, err := stream.Recv()
		if err != nil {
			return err
		}
		switch answer := response.Response.(type) {
		case *pb.ConsumeResponse_Error:
			return fmt.Errorf("%s: %s", answer.Error.Code, answer.Error.Message)
		case *pb.ConsumeResponse_Received:
			for _, leased := range answer.Received.Leases {
				for _, message := range leased.Messages {
					fmt.Printf("received %s from %s, attempt %d\n", message.Value, message.Headers["from"], leased.Attempt)
					count--
				}
				ack := &pb.Settle{Ranges: []*pb.LeaseRange{leased.Range}}
				if err := stream.Send(&pb.ConsumeRequest{Id: id, Request: &pb.ConsumeRequest_Ack{Ack: ack}}); err != nil {
					return err
				}
				id++
			}
			if count > 0 {
				if err := stream.Send(&pb.ConsumeRequest{Id: id, Request: &pb.ConsumeRequest_Receive{Receive: receive}}); err != nil {
					return err
				}
				id++
			} else if err := stream.CloseSend(); err != nil {
				return err
			}
		case *pb.ConsumeResponse_Opened:
			if err := stream.Send(&pb.ConsumeRequest{Id: id, Request: &pb.ConsumeRequest_Receive{Receive: receive}}); err != nil {
				return err
			}
			id++
		case *pb.ConsumeResponse_Closed:
			fmt.Println("all acked")
			return nil
		}
	}
}
