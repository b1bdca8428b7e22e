//! A producer and a consumer of one partition, by rskafka with its defaults.
//!
//!     program produce ADDRESS TOPIC SIZE COUNT ACKS CODEC
//!     program consume ADDRESS TOPIC COUNT
//!
//! Each prints how many records it moved, the seconds from the first record to the last
//! acknowledgement, or to the last record read, and the processor seconds of that time.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::Utc;
use futures::stream::{self, StreamExt, TryStreamExt};
use rskafka::client::consumer::{StartOffset, StreamConsumerBuilder};
use rskafka::client::partition::{Compression, PartitionClient, UnknownTopicHandling};
use rskafka::client::ClientBuilder;
use rskafka::record::Record;

type Answer<T> = Result<T, Box<dyn Error>>;

const PATIENCE: Duration = Duration::from_secs(120);
/// A request has the records of one call; rskafka gathers none. Half a megabyte at 1 KB.
const RECORDS_OF_A_CALL: usize = 500;
/// As many as Java's producer has in flight.
const CALLS_AT_ONCE: usize = 5;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Answer<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (records, took, cpu) = tokio::time::timeout(PATIENCE, asked(&words)).await??;
    let seconds = took.as_secs_f64();
    println!(r#"{{"records": {records}, "seconds": {seconds}, "cpu": {cpu}}}"#);
    Ok(())
}

async fn asked(words: &[&str]) -> Answer<(usize, Duration, f64)> {
    let (address, topic) = match words {
        ["produce", address, topic, _, _, acks, codec] => {
            known("acks", acks, "all")?; // rskafka asks for all, always
            known("codec", codec, "none")?;
            (address, topic)
        }
        ["consume", address, topic, _] => (address, topic),
        _ => {
            return Err("wanted produce ADDRESS TOPIC SIZE COUNT ACKS CODEC, \
                         or consume ADDRESS TOPIC COUNT"
                .into())
        }
    };
    let partition = partition(address, topic).await?;
    let (begin, cpu) = (Instant::now(), cpu_seconds()?);
    let records = match words {
        [_, _, _, size, count, ..] => produce(partition, size.parse()?, count.parse()?).await?,
        _ => consume(partition, words[3].parse()?).await?,
    };
    Ok((records, begin.elapsed(), cpu_seconds()? - cpu))
}

fn known(what: &str, word: &str, wanted: &str) -> Answer<()> {
    if word == wanted {
        return Ok(());
    }
    Err(format!("wanted {what} {wanted}, got {word}").into())
}

async fn partition(address: &str, topic: &str) -> Answer<Arc<PartitionClient>> {
    let client = ClientBuilder::new(vec![address.to_owned()]).build().await?;
    let first = client
        .partition_client(topic, 0, UnknownTopicHandling::Error)
        .await?;
    Ok(Arc::new(first))
}

async fn produce(partition: Arc<PartitionClient>, size: usize, count: usize) -> Answer<usize> {
    let letters: Vec<u8> = (b'a'..=b'z').cycle().take(size).collect();
    let record = || Record {
        key: None,
        value: Some(letters.clone()),
        headers: Default::default(),
        timestamp: Utc::now(),
    };
    let calls = (0..count).step_by(RECORDS_OF_A_CALL).map(|at| {
        let of_call = RECORDS_OF_A_CALL.min(count - at);
        let records = std::iter::repeat_with(record).take(of_call).collect();
        partition.produce(records, Compression::NoCompression)
    });
    let offsets: Vec<_> = stream::iter(calls)
        .buffer_unordered(CALLS_AT_ONCE)
        .try_collect()
        .await?;
    Ok(offsets.iter().map(Vec::len).sum())
}

async fn consume(partition: Arc<PartitionClient>, count: usize) -> Answer<usize> {
    let mut records = StreamConsumerBuilder::new(partition, StartOffset::Earliest).build();
    let mut seen = 0;
    while seen < count {
        records.next().await.ok_or("the stream ended")??;
        seen += 1;
    }
    Ok(seen)
}

fn cpu_seconds() -> Answer<f64> {
    let mut used = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call writes one timespec, which is ours.
    if unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut used) } != 0 {
        return Err(std::io::Error::last_os_error().into());
    }
    Ok(used.tv_sec as f64 + used.tv_nsec as f64 / 1e9)
}
