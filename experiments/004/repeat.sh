#!/usr/bin/env bash
# Repeats Tables 3 and 4 and Figure 10 of paper 004; docs/results/paper-004.md says what had to be fitted.
#
#   experiments/004/repeat.sh            tables to the terminal, Figure 10 to target/paper-004
#   SIPYARD=sipyard experiments/004/repeat.sh    the same with an installed sipyard
set -euo pipefail
cd "$(dirname "$0")/../.."

read -ra sipyard <<<"${SIPYARD:-cargo run --quiet --release --package sipyard --}"
models=crates/lqn/tests/models
out=target/paper-004
mkdir -p "$out"

model() {
    "${sipyard[@]}" model "$@"
}

# The network's second phase, s1 (1 - eta) / eta, for the shares eta of it that can be used (equation 1).
second_phases() {
    local s1=$1
    shift
    for eta in "$@"; do
        awk -v s1="$s1" -v eta="$eta" 'BEGIN { printf "%s%.6f", ",", s1 * (1 - eta) / eta }'
    done | cut -c2-
}

printf '== Tables 3 and 4, standalone: the paper against the model\n'
model compare $models/standalone-ordered.lqn --events 8000000 --measured X=369 --measured Network.utilization=.66 \
    --measured server.utilization=2.12 --measured SIPServer.utilization=.96
printf '\n== Tables 3 and 4, cluster: the paper against the model\n'
model compare $models/cluster-shed.lqn --events 8000000 --measured X=280 --measured Network.utilization=1 \
    --measured server.utilization=4.57 --measured SIPServer.utilization=.73 \
    --measured balancer.utilization=.47 --measured LoadBalancer.utilization=.32

# Packet times of the outer and the inner network: the mean, and the ends of its interval.
while read -r name outer inner; do
    printf '\n== Figure 10, %s of the packet times: %s ms and %s ms\n' "$name" "$outer" "$inner"
    model what-if $models/cluster-shed.lqn --vary "net.neta.1=$outer" --vary "net.netb.1=$inner" \
        --vary "net.neta.2=$(second_phases "$outer" .3 .35 .4 .45 .5)" \
        --vary "net.netb.2=$(second_phases "$inner" .1 .15 .2 .25 .3)" --csv | tee "$out/figure-10-$name.csv"
done <<'END'
low 0.0587 0.0375
mean 0.0616 0.0381
high 0.0645 0.0387
END
