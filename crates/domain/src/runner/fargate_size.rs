//! The sizes that Fargate offers: memory depends on CPU.

/// CPU units, minimum and maximum memory in MiB, and the step. The smallest CPU is an exception: it also
/// allows 512 MiB. Source: Amazon ECS developer guide, "Task size" of Fargate task definitions.
const SIZES: [(u32, u32, u32, u32); 7] = [
    (256, 1_024, 2_048, 1_024),
    (512, 1_024, 4_096, 1_024),
    (1_024, 2_048, 8_192, 1_024),
    (2_048, 4_096, 16_384, 1_024),
    (4_096, 8_192, 30_720, 1_024),
    (8_192, 16_384, 61_440, 4_096),
    (16_384, 32_768, 122_880, 8_192),
];

/// Checks that Fargate has a size of `cpu` units and `memory` MiB; else the faulty field and the reason.
pub(crate) fn check(cpu: Option<u32>, memory: Option<u32>) -> Result<(), (&'static str, String)> {
    let (cpu, memory) = match (cpu, memory) {
        (None, None) => return Ok(()),
        (Some(_), None) => return Err(("memory", "is required beside `cpu`".to_owned())),
        (None, Some(_)) => return Err(("cpu", "is required beside `memory`".to_owned())),
        (Some(cpu), Some(memory)) => (cpu, memory),
    };
    let Some((_, least, most, step)) = SIZES.iter().find(|size| size.0 == cpu) else {
        let all = SIZES.map(|size| size.0.to_string()).join(", ");
        return Err(("cpu", format!("must be one of {all}")));
    };
    let smallest = cpu == 256 && memory == 512;
    if smallest || ((*least..=*most).contains(&memory) && memory % step == 0) {
        return Ok(());
    }
    let also = if cpu == 256 { "512, or " } else { "" };
    Err((
        "memory",
        format!("must be {also}{least} to {most} in steps of {step} when `cpu` is {cpu}"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fargate_offers_only_certain_pairs_of_cpu_and_memory() {
        let good =
            [(256, 512), (256, 2048), (512, 1024), (4096, 30720), (8192, 20480), (16384, 122_880)];
        let bad =
            [(256, 1536), (256, 4096), (512, 512), (300, 1024), (8192, 17408), (16384, 122_881)];
        for (cpu, memory) in good {
            assert_eq!(check(Some(cpu), Some(memory)), Ok(()), "{cpu} {memory}");
        }
        for (cpu, memory) in bad {
            assert!(check(Some(cpu), Some(memory)).is_err(), "{cpu} {memory}");
        }
        insta::assert_snapshot!(check(Some(256), Some(600)).unwrap_err().1, @"must be 512, or 1024 to 2048 in steps of 1024 when `cpu` is 256");
    }
}
