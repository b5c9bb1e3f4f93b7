//! The finisher's own process: gives up what it may do, then serves one request after the other, until its parent is gone.
//!
//! Leaves out the parent's side (`client.rs`).

use super::message::{Answer, MOST, Request};
use super::outputs::Outputs;
use super::prefetch::Prefetch;
use super::project::ProjectSearch;
use super::results::Results;
use super::send_back::{PATIENCE, send_back};
use crate::agent::{self, Agent};
use crate::live::Watcher;
use crate::plan::RecordPlan;
use crate::top::View;
use caps::{Capability, CapsHashSet};
use energy_trace_system::host::limits::advise;
use energy_trace_system::roles::channel::ChannelError;
use energy_trace_system::roles::child::Parent;
use energy_trace_system::roles::own_user::OwnUser;
use energy_trace_system::roles::renounce::{renounce, renounce_all_but};
use nix::unistd::geteuid;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};

/// The process's life. Returns its exit status, which nobody reads.
pub(super) fn serve(plan: &RecordPlan, parent: &Parent) -> i32 {
    // Who draws sets the terminal right when its parent is gone, and ends then by itself.
    let draws = plan.live && plan.agent.is_none();
    let bound = || if draws { Ok(()) } else { parent.die_with_it() };
    let become_user = become_user(plan).and_then(|()| bound());
    let mut state = State {
        plan,
        became: become_user,
        prefetch: None,
        project: None,
        outputs: None,
        watcher: None,
        began: false,
        results: None,
    };
    let ended = state.serve(parent);
    state.end();
    match ended {
        ChannelError::Closed => 0,
        // The parent waits for no answer that could say why.
        _ => 1,
    }
}

/// The invoking user under sudo, else who we are, without capabilities. A root that nobody has called by sudo
/// keeps the right to write into folders of others, which is what it is root for; its number alone, 0, owns
/// the system's files anyway. An agent is nobody, or who owns its spool; who sends to a peer is nobody too.
fn become_user(plan: &RecordPlan) -> io::Result<()> {
    if let Some(agent) = &plan.agent {
        return agent::become_user(agent);
    }
    if plan.peer.is_some() {
        // Whom the user cannot stop or end.
        return renounce(OwnUser::find().identity());
    }
    match &plan.owner {
        Some(user) => renounce(Some(&user.role())),
        None if geteuid().is_root() => {
            renounce_all_but(None, &CapsHashSet::from([Capability::CAP_DAC_OVERRIDE]))
        }
        None => renounce(None),
    }
}

struct State<'a> {
    plan: &'a RecordPlan,
    became: io::Result<()>,
    prefetch: Option<Prefetch>,
    project: Option<ProjectSearch>,
    outputs: Option<Outputs>,
    /// Instead of files, where somebody takes what is recorded at once.
    watcher: Option<Box<dyn Watcher>>,
    /// Whether the command runs: from now on files are kept.
    began: bool,
    results: Option<Results>,
}

impl State<'_> {
    fn serve(&mut self, parent: &Parent) -> ChannelError {
        loop {
            let request = match parent.channel.receive(MOST, None) {
                Ok((request, _)) => request,
                Err(error) => return error,
            };
            let Some(answer) = self.answer(&request) else { continue };
            let pipe = self.watcher.as_mut().and_then(|watcher| watcher.take_writing_end());
            let recording = self.outputs.as_ref().map(|outputs| outputs.recording().as_fd());
            let recording = recording.or_else(|| pipe.as_ref().map(|pipe| pipe.as_fd()));
            let files: Vec<BorrowedFd<'_>> =
                recording.into_iter().filter(|_| matches!(answer, Answer::Prepared)).collect();
            if let Err(error) = parent.channel.send(&answer, &files, None) {
                return error;
            }
        }
    }

    /// `None`: nobody waits for one.
    fn answer(&mut self, request: &Request) -> Option<Answer> {
        Some(match request {
            Request::Prepare => self.prepare(),
            Request::Prefetch => {
                let files = self.prefetch.take().map(Prefetch::wait);
                Answer::ToPrefetch(files.unwrap_or_default())
            }
            Request::Project => Answer::Project(self.project.take().map(ProjectSearch::finish)),
            Request::Began => {
                self.began = true;
                self.watcher.iter_mut().for_each(|watcher| watcher.begin());
                return None;
            }
            Request::Tell(lost, share) => {
                self.watcher.iter_mut().for_each(|watcher| watcher.hear(*lost, *share));
                return None;
            }
            Request::Finish => self.finish(),
            Request::Show => {
                if let Some(results) = &self.results {
                    results.show(self.plan);
                }
                Answer::Done
            }
            Request::Budgets => match &self.results {
                Some(results) => Answer::Budgets(results.budgets(self.plan)),
                None => Answer::Refused("there is no result to hold against a budget".into()),
            },
        })
    }

    fn finish(&mut self) -> Answer {
        self.began = true;
        if let Some(watcher) = &mut self.watcher {
            return watcher.end().map_or_else(Answer::Refused, |()| Answer::Done);
        }
        let Some(outputs) = &mut self.outputs else {
            return Answer::Refused("there is no recording to make a result of".into());
        };
        if self.plan.peer.is_some() {
            let sent = send_back(outputs.recording(), io::stdin().as_fd(), PATIENCE);
            return sent.map_or_else(|error| refuse(&error), |()| Answer::Done);
        }
        match Results::make(self.plan, outputs) {
            Ok(results) => {
                self.results = Some(results);
                Answer::Done
            }
            Err(error) => refuse(&error),
        }
    }

    fn prepare(&mut self) -> Answer {
        if let Err(error) = &self.became {
            return Answer::Refused(format!(
                "cannot give up privileges, so no file is written: {error}; run energy-trace as root or with the capabilities \
                 that `energy-trace doctor` names, outside of a user namespace"
            ));
        }
        self.prefetch = Prefetch::begin(self.plan);
        if self.plan.live {
            return match watcher(self.plan) {
                Ok(watcher) => {
                    self.watcher = Some(watcher);
                    Answer::Prepared
                }
                Err(error) => refuse(&error),
            };
        }
        self.project = ProjectSearch::begin(self.plan);
        match Outputs::prepare(self.plan) {
            Ok(outputs) => {
                self.outputs = Some(outputs);
                Answer::Prepared
            }
            Err(error) => refuse(&error),
        }
    }

    /// The parent is gone, or done with us.
    fn end(self) {
        self.prefetch.into_iter().for_each(Prefetch::end);
        self.project.into_iter().for_each(ProjectSearch::end);
        if let (Some(outputs), false) = (self.outputs, self.began) {
            outputs.discard();
        }
    }
}

fn watcher(plan: &RecordPlan) -> io::Result<Box<dyn Watcher>> {
    Ok(match &plan.agent {
        Some(agent) => Box::new(Agent::new(agent)?),
        None => Box::new(View::new(plan.screen.color)?),
    })
}

fn refuse(error: &(dyn std::error::Error + 'static)) -> Answer {
    let advice = advise(error).map(|advice| format!("\n  {advice}")).unwrap_or_default();
    Answer::Refused(format!("{error}{advice}"))
}
