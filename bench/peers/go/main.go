// A producer and a consumer of one partition, by franz-go with its defaults.
//
//	program produce ADDRESS TOPIC SIZE COUNT ACKS CODEC
//	program consume ADDRESS TOPIC COUNT
//
// Each prints how many records it moved, the seconds from the first record to the last
// acknowledgement, or to the last record read, and the processor seconds of that time.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"log"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const patience = 2 * time.Minute

func main() {
	log.SetFlags(0)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	options, job := asked(os.Args[1:])
	client := connected(ctx, options)
	defer client.Close()
	begin, cpu := time.Now(), cpuSeconds()
	records := job(ctx, client)
	told := map[string]any{"records": records, "seconds": time.Since(begin).Seconds(),
		"cpu": cpuSeconds() - cpu}
	if err := json.NewEncoder(os.Stdout).Encode(told); err != nil {
		log.Fatal(err)
	}
}

type job func(context.Context, *kgo.Client) int

func asked(words []string) ([]kgo.Opt, job) {
	switch {
	case len(words) == 7 && words[0] == "produce":
		size, count := number(words[3]), number(words[4])
		options := append(acknowledged(words[5]), kgo.SeedBrokers(words[1]),
			kgo.DefaultProduceTopic(words[2]), kgo.ProducerBatchCompression(codec(words[6])))
		return options, func(ctx context.Context, client *kgo.Client) int {
			return produce(ctx, client, size, count)
		}
	case len(words) == 4 && words[0] == "consume":
		count := number(words[3])
		first := map[string]map[int32]kgo.Offset{words[2]: {0: kgo.NewOffset().AtStart()}}
		options := []kgo.Opt{kgo.SeedBrokers(words[1]), kgo.ConsumePartitions(first)}
		return options, func(ctx context.Context, client *kgo.Client) int {
			return consume(ctx, client, count)
		}
	}
	log.Fatal("wanted produce ADDRESS TOPIC SIZE COUNT ACKS CODEC, or consume ADDRESS TOPIC COUNT")
	return nil, nil
}

func produce(ctx context.Context, client *kgo.Client, size, count int) int {
	value := text(size)
	var failed atomic.Pointer[error]
	for range count {
		client.Produce(ctx, &kgo.Record{Value: value}, func(_ *kgo.Record, err error) {
			if err != nil {
				failed.Store(&err)
			}
		})
	}
	if err := client.Flush(ctx); err != nil {
		log.Fatal(err)
	}
	if err := failed.Load(); err != nil {
		log.Fatalf("a record was not acknowledged: %v", *err)
	}
	return count
}

func consume(ctx context.Context, client *kgo.Client, count int) int {
	seen := 0
	for seen < count {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			log.Fatalf("%v, after %d of %d records", err, seen, count)
		}
		fetches.EachRecord(func(*kgo.Record) { seen++ })
	}
	return seen
}

func connected(ctx context.Context, options []kgo.Opt) *kgo.Client {
	client, err := kgo.NewClient(options...)
	if err == nil {
		err = client.Ping(ctx)
	}
	if err != nil {
		log.Fatal(err)
	}
	return client
}

// An idempotent producer, the default, wants acks=all.
func acknowledged(acks string) []kgo.Opt {
	switch acks {
	case "1":
		return []kgo.Opt{kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite()}
	case "all":
		return nil
	}
	log.Fatalf("wanted acks 1 or all, got %s", acks)
	return nil
}

func codec(name string) kgo.CompressionCodec {
	switch name {
	case "none":
		return kgo.NoCompression()
	case "lz4":
		return kgo.Lz4Compression()
	}
	log.Fatalf("wanted codec none or lz4, got %s", name)
	return kgo.NoCompression()
}

// text compresses well.
func text(size int) []byte {
	const letters = "abcdefghijklmnopqrstuvwxyz"
	return bytes.Repeat([]byte(letters), size/len(letters)+1)[:size]
}

func number(word string) int {
	value, err := strconv.Atoi(word)
	if err != nil || value < 1 {
		log.Fatalf("wanted a number above 0, got %s", word)
	}
	return value
}

func cpuSeconds() float64 {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		log.Fatalf("getrusage: %v", err)
	}
	seconds := func(each syscall.Timeval) float64 { return float64(each.Nano()) / 1e9 }
	return seconds(used.Utime) + seconds(used.Stime)
}
