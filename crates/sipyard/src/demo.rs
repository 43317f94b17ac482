//! `sipyard demo`: callers, an edge and emulated servers in one process, on loopback.
//!
//! Live reloads change the edge's policy while calls continue. Each figure of a policy covers the
//! calls that began while that policy was in force.

mod edge;
mod frame;
mod lines;
mod running;
mod scene;
mod schedule;
mod screen;
mod summary;
mod user_agents;

use std::{
    env,
    io::{self, IsTerminal, Write},
    process::ExitCode,
    time::Duration,
};

use clap::Args;
use socket::Clock;
use tokio::{
    signal::unix::{SignalKind, signal},
    time::{MissedTickBehavior, interval},
};

use edge::Edge;
use lines::Lines;
use running::Running;
use scene::{Act, Scene};
use schedule::{POLICIES, Schedule};
use screen::Screen;
use user_agents::{BYE, CALLS_PER_S, INVITE, SAMPLE, STALL, STALL_EVERY, UserAgents};

/// How often the demo draws the terminal and does its other work.
const TICK: Duration = Duration::from_millis(100);

/// How long calls in progress may take to end: their holding time, then 64*T1 for a BYE.
const ENDING_MAX: Duration = Duration::from_secs(40);

/// Run a cluster with callers and servers on this machine, and watch it
#[derive(Args)]
#[command(after_help = "Examples:
  sipyard demo                 until Ctrl-C, which lets the calls in progress end
  sipyard demo --duration 20s  a quick look
  sipyard demo | cat           a line a second instead of a screen

Exit code: 0, or 1 if a call failed.")]
pub(crate) struct Demo {
    /// How long to start calls, such as 20s or 5m, with an equal part for each policy; without it,
    /// until Ctrl-C
    #[arg(long, env = "DURATION", value_parser = settings::duration)]
    duration: Option<Duration>,
}

impl Demo {
    /// Runs until the duration ends or a signal stops it.
    pub(crate) fn run(self) -> ExitCode {
        let outcome = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .and_then(|runtime| runtime.block_on(self.play()));
        match outcome {
            Ok(0) => ExitCode::SUCCESS,
            Ok(_) => ExitCode::FAILURE,
            // Whoever read the lines has seen enough.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::FAILURE,
            Err(error) => {
                // With nowhere to say why, the exit code still tells.
                let _ = writeln!(io::stderr(), "sipyard demo: {error}");
                ExitCode::FAILURE
            }
        }
    }

    /// Shows the cluster until the end and returns how many calls failed.
    async fn play(self) -> io::Result<u64> {
        let schedule = Schedule::new(self.duration);
        let mut show = Show::new(schedule).await?;
        show.introduce()?;
        show.display = Display::open()?;
        let scene = show.perform().await?;
        drop(show);
        write!(io::stdout(), "\n{}", summary::summary(&scene))?;
        Ok(scene.totals().2)
    }
}

/// The cluster and its display.
struct Show {
    display: Display,
    running: Running,
    edge: Edge,
    clock: Clock,
    schedule: Schedule,
    /// The index of the policy in force; none before the first call and after the last one started.
    policy: Option<usize>,
    began: Duration,
    /// When the last call started.
    ending: Option<Duration>,
    is_cut_off: bool,
    next_sample: Duration,
}

impl Show {
    /// Starts the servers and the edge.
    async fn new(schedule: Schedule) -> io::Result<Self> {
        let clock = Clock::start();
        let agents = UserAgents::new(socket::seed())?;
        let servers: Vec<_> = agents.servers().iter().map(|uas| uas.address()).collect();
        let edge = Edge::start(&servers, POLICIES[0], clock).await?;
        let running = Running::start(agents, clock)?;
        let began = clock.now();
        Ok(Self {
            display: Display::Lines(Lines::default()),
            running,
            edge,
            clock,
            schedule,
            policy: None,
            began,
            ending: None,
            is_cut_off: false,
            next_sample: began + SAMPLE,
        })
    }

    fn introduce(&self) -> io::Result<()> {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let (_, phase) = self.schedule.next(Duration::ZERO);
        let policies = POLICIES.map(|policy| policy.name()).join(", ");
        writeln!(
            io::stdout(),
            "An edge on udp {} sends {CALLS_PER_S} calls a second on four\n\
             emulated servers, 60 % of what they can carry. A server works for {} ms on an\n\
             INVITE, {} ms on a BYE, and stalls for {} s every {STALL_EVERY} calls. The policy\n\
             changes by a live reload every {} s: {policies}.\n\
             Ask the edge at any time: sipyard ctl --admin {} status",
            self.edge.address(),
            ms(INVITE),
            ms(BYE),
            STALL.as_secs(),
            phase.as_secs_f64(),
            self.edge.admin().display(),
        )
    }

    /// Ticks until the end and returns the last scene.
    async fn perform(&mut self) -> io::Result<Scene> {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            tokio::select! {
                _ = tick.tick() => (),
                _ = interrupt.recv() => self.stop(),
                _ = terminate.recv() => self.stop(),
            }
            let now = self.clock.now();
            self.follow_schedule(now)?;
            let scene = self.scene(now);
            self.display.show(&scene)?;
            if self.is_over(&scene, now) {
                self.running.agents().sample();
                return Ok(self.scene(now));
            }
        }
    }

    /// Handles a signal: the first lets the calls in progress end, the second cuts them off.
    fn stop(&mut self) {
        self.is_cut_off = self.ending.is_some();
        self.ending.get_or_insert_with(|| self.clock.now());
    }

    fn follow_schedule(&mut self, now: Duration) -> io::Result<()> {
        let policy = match self.ending {
            None => self.schedule.policy(now - self.began),
            Some(_) => None,
        };
        if policy != self.policy {
            self.policy = policy;
            match policy {
                Some(place) => {
                    self.edge.set_policy(POLICIES[place]);
                    self.running
                        .agents()
                        .call(place, self.edge.address(), now)?;
                }
                None => {
                    self.ending.get_or_insert(now);
                    self.running.agents().hush();
                }
            }
        }
        Ok(())
    }

    fn scene(&mut self, now: Duration) -> Scene {
        let mut agents = self.running.agents();
        if now >= self.next_sample {
            agents.sample();
            self.next_sample += SAMPLE;
        }
        let elapsed = now - self.began;
        let act = match self.policy {
            Some(policy) => {
                let (next, left) = self.schedule.next(elapsed);
                Act::Calling { policy, next, left }
            }
            None => Act::Ending,
        };
        Scene::new(&self.edge, &agents, act, now, elapsed)
    }

    fn is_over(&self, scene: &Scene, now: Duration) -> bool {
        let patience = self.ending.map(|ending| ending + ENDING_MAX);
        patience.is_some_and(|patience| scene.open == 0 || self.is_cut_off || now >= patience)
    }
}

/// Where the demo shows the scenes.
enum Display {
    Screen(Screen),
    Lines(Lines),
}

impl Display {
    /// Draws on the terminal; prints lines if standard output is not one.
    fn open() -> io::Result<Self> {
        let is_dumb = env::var_os("TERM").is_none_or(|term| term == "dumb");
        if io::stdout().is_terminal() && !is_dumb {
            return Ok(Self::Screen(Screen::open()?));
        }
        Ok(Self::Lines(Lines::default()))
    }

    fn show(&mut self, scene: &Scene) -> io::Result<()> {
        match self {
            Self::Screen(screen) => screen.show(scene),
            Self::Lines(lines) => lines.show(scene),
        }
    }
}
