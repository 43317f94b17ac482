//! The answer as a page.

use report::{Page, Table};

use super::{
    answer::Answer,
    limits::Limit,
    load::TransportLoad,
    size::GIB,
    words::{figure, grouped, percent},
};

impl Answer {
    pub(super) fn page(&self) -> Page {
        Page::new(match self.design.title.as_str() {
            "" => "Scale",
            title => title,
        })
        .text(&self.summary)
        .table(self.nodes())
        .table(self.demand())
        .table(self.transports())
        .table(self.stores())
        .table(self.bandwidth())
        .table(self.losses_table())
        .table(self.returns())
        .table(limits(
            "What is full first on these nodes while a site is lost and spare nodes are down",
            &self.limits_of_nodes,
            false,
        ))
        .table(limits(
            "What is in the way of more nodes, in the site that is nearest to it",
            &self.limits_of_design,
            true,
        ))
        .table(self.settings_table())
        .table(self.costs())
    }

    fn nodes(&self) -> Table {
        let columns = [
            "site",
            "users",
            "calls/s",
            "edges",
            "because of",
            "registrars",
            "because of",
            "stores",
            "shards each",
            "cores",
            "memory, GiB",
        ];
        let mut table = Table::new("Nodes, spare ones included", columns);
        let design = &self.design;
        for site in &self.sites {
            let shards = site.stores.clusters * site.stores.shards * (1.0 + design.store.replicas);
            let (edges, registrars) = (site.edges.nodes, site.registrars.nodes);
            let cores = edges * design.edge.cores + registrars * design.registrar.cores + shards;
            let memory = edges * design.edge.memory_gib
                + registrars * design.registrar.memory_gib
                + shards * design.store.memory_gib;
            table.push([
                site.name.clone(),
                grouped(site.load.users),
                grouped(site.load.calls_per_s),
                grouped(edges),
                site.edges.because.to_owned(),
                grouped(registrars),
                site.registrars.because.to_owned(),
                grouped(site.stores.clusters),
                grouped(site.stores.shards),
                grouped(cores),
                grouped(memory),
            ]);
        }
        table
    }

    fn demand(&self) -> Table {
        let columns = [
            "site",
            "open calls",
            "REGISTERs/s",
            "keep-alives/s",
            "connections",
            "edges' busy cores",
            "of these keep-alives",
            "edges' memory, GiB",
            "registrars' busy cores",
        ];
        let mut table = Table::new("Load of the busy hour, all sites up", columns);
        for site in &self.sites {
            let load = &site.load;
            let alive =
                |of: fn(&TransportLoad) -> f64| load.by_transport.iter().map(of).sum::<f64>();
            table.push([
                site.name.clone(),
                grouped(load.open_calls),
                grouped(load.registers_per_s),
                grouped(alive(|it| it.keep_alives_per_s)),
                grouped(load.connections),
                figure(load.edge_cores),
                figure(alive(|it| it.keep_alive_cores)),
                figure(load.edge_bytes / GIB),
                figure(load.registrar_cores),
            ]);
        }
        table
    }

    fn transports(&self) -> Table {
        let columns = [
            "transport",
            "phones",
            "REGISTERs/s",
            "keep-alives/s",
            "cores for keep-alives",
            "Mbit/s of keep-alives",
        ];
        let mut table = Table::new("By transport, all sites together", columns);
        let all = self.design.load(self.design.demand.users);
        for (load, transport) in all.by_transport.iter().zip(&self.design.transports) {
            let bits = 8.0 * load.keep_alives_per_s * transport.keep_alive_bytes;
            table.push([
                load.name.clone(),
                grouped(load.phones),
                grouped(load.registers_per_s),
                grouped(load.keep_alives_per_s),
                figure(load.keep_alive_cores),
                figure(bits / 1e6),
            ]);
        }
        table
    }

    fn stores(&self) -> Table {
        let columns = [
            "site",
            "changes/s of a store",
            "nodes that hear of each",
            "shard busy, %",
            "while a site is lost, %",
        ];
        let mut table = Table::new("Stores", columns);
        for site in &self.sites {
            let stores = &site.stores;
            table.push([
                site.name.clone(),
                grouped(site.load.changes_per_s / stores.clusters),
                grouped(stores.listeners),
                percent(stores.busy),
                percent(stores.busy_worst),
            ]);
        }
        table
    }

    fn bandwidth(&self) -> Table {
        let columns = [
            "site",
            "phones, Gbit/s",
            "while a site is lost",
            "other sites, Gbit/s",
            "while a site is lost",
        ];
        let mut table = Table::new("Bandwidth, both directions", columns);
        for site in &self.sites {
            let gbit = |bits: f64| figure(bits / 1e9);
            table.push([
                site.name.clone(),
                gbit(site.load.access_bits_per_s),
                gbit(site.worst.access_bits_per_s),
                gbit(site.load.link_bits_per_s),
                gbit(site.worst.link_bits_per_s),
            ]);
        }
        table
    }

    fn losses_table(&self) -> Table {
        let columns = [
            "lost",
            "taken over by",
            "users",
            "calls/s before",
            "after",
            "edges busy, %",
            "after",
            "registrars busy, %",
            "after",
            "shards busy, %",
            "after",
        ];
        let mut table = Table::new("When a site is lost", columns);
        for loss in &self.losses {
            let mut row = vec![loss.lost.clone(), loss.by.clone(), grouped(loss.users)];
            row.extend(loss.calls_per_s.map(grouped));
            row.extend(loss.edges_busy.map(percent));
            row.extend(loss.registrars_busy.map(percent));
            row.extend(loss.stores_busy.map(percent));
            table.push(row);
        }
        table
    }

    fn returns(&self) -> Table {
        let columns = [
            "lost",
            "taken over by",
            "phones",
            "edges, s",
            "handshakes in progress, s",
            "registrars, s",
            "stores, s",
            "back after, s",
            "limited by",
        ];
        let caption = "Phones whose connection is gone, if all come back at once";
        let mut table = Table::new(caption, columns);
        for loss in &self.losses {
            table.push([
                loss.lost.clone(),
                loss.by.clone(),
                grouped(loss.phones),
                figure(loss.edges_s),
                figure(loss.handshakes_s),
                figure(loss.registrars_s),
                figure(loss.stores_s),
                figure(loss.back_s),
                loss.limit.to_owned(),
            ]);
        }
        table
    }

    fn settings_table(&self) -> Table {
        let columns = ["node", "key", "default", "at least"];
        let mut table = Table::new("Limits of a node's configuration", columns);
        for setting in &self.settings {
            table.push([
                setting.node.to_owned(),
                setting.key.to_owned(),
                grouped(setting.default),
                grouped(setting.needed),
            ]);
        }
        table
    }

    fn costs(&self) -> Table {
        let mut table = Table::new("Costs", ["cost", "value", "from"]);
        for source in &self.design.sources {
            table.push([
                source.cost.clone(),
                figure(source.value),
                source.from.clone(),
            ]);
        }
        table
    }
}

fn limits(caption: &str, limits: &[Limit], has_cures: bool) -> Table {
    let mut columns = vec!["what", "here", "at most", "reached at, times"];
    columns.extend(has_cures.then_some("cure"));
    let mut table = Table::new(caption, columns);
    for limit in limits {
        let mut row = vec![
            limit.what.to_owned(),
            figure(limit.value),
            figure(limit.most),
            limit.at_times.map_or_else(|| "-".to_owned(), figure),
        ];
        row.extend(has_cures.then(|| limit.cure.to_owned()));
        table.push(row);
    }
    table
}
